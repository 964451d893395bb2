-- AlterTable
ALTER TABLE "batch" ADD COLUMN     "rolled_up" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "run" ADD COLUMN     "seeded" BOOLEAN NOT NULL DEFAULT false;

-- CreateTable
CREATE TABLE "batch_roll_up" (
    "batch_id" INTEGER NOT NULL,
    "data_source" TEXT NOT NULL,
    "samples" INTEGER NOT NULL,
    "scored" INTEGER NOT NULL,
    "failed" INTEGER NOT NULL,
    "substituted" INTEGER NOT NULL,
    "mean" DOUBLE PRECISION,
    "std" DOUBLE PRECISION,
    "min" DOUBLE PRECISION,
    "max" DOUBLE PRECISION,
    "quantiles" DOUBLE PRECISION[],
    "bin_values" DOUBLE PRECISION[],
    "bin_counts" INTEGER[],
    "queue_ms" REAL[],
    "score_ms" REAL[],
    "reasons" JSONB NOT NULL DEFAULT '{}',

    CONSTRAINT "batch_roll_up_pkey" PRIMARY KEY ("batch_id","data_source")
);

-- Batches that wait for their roll-up: those of before this migration first, then a few at a time.
CREATE INDEX "batch_to_roll_up" ON "batch"("id") WHERE NOT "rolled_up";
