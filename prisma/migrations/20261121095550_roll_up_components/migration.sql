-- AlterTable
ALTER TABLE "batch_roll_up" ADD COLUMN     "components" JSONB;
