-- AlterTable
ALTER TABLE "server" ADD COLUMN     "chat_template" TEXT;
