-- CreateTable
CREATE TABLE "call_limiter" (
    "name" TEXT NOT NULL,
    "limits" JSONB NOT NULL,
    "used_at" TIMESTAMPTZ(6) NOT NULL,

    CONSTRAINT "call_limiter_pkey" PRIMARY KEY ("name")
);
