-- AlterTable
ALTER TABLE "batch" ADD COLUMN "rescored_from" INTEGER;

-- CreateTable
CREATE TABLE "rescore_copy" (
    "batch_id" INTEGER NOT NULL,
    "text_bucket" DATE NOT NULL,
    "started_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "rescore_copy_pkey" PRIMARY KEY ("batch_id")
);

-- CreateIndex
CREATE INDEX "batch_rescored_from_idx" ON "batch"("rescored_from");
