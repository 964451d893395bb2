-- AlterTable
ALTER TABLE "server" ADD COLUMN     "label" TEXT,
ADD COLUMN     "named_route" TEXT,
ADD COLUMN     "plain_text" BOOLEAN NOT NULL DEFAULT false;
