-- CreateTable
CREATE TABLE "function_source" (
    "hash" TEXT NOT NULL,
    "path" TEXT NOT NULL,
    "files" JSON NOT NULL,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "function_source_pkey" PRIMARY KEY ("hash")
);
