-- AlterTable
ALTER TABLE "batch" ADD COLUMN     "samples_removed_at" TIMESTAMPTZ(6),
ADD COLUMN     "texts_removed_at" TIMESTAMPTZ(6);

-- AlterTable
ALTER TABLE "rescore_copy" ADD COLUMN     "from_id" INTEGER;

-- CreateTable
CREATE TABLE "api_key" (
    "id" SERIAL NOT NULL,
    "name" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "hash" BYTEA NOT NULL,
    "session_hash" BYTEA NOT NULL,
    "prefix" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "created_by" TEXT NOT NULL,
    "expires_at" TIMESTAMPTZ(6),
    "last_used_at" TIMESTAMPTZ(6),
    "revoked_at" TIMESTAMPTZ(6),
    "revoked_by" TEXT,

    CONSTRAINT "api_key_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "setting" (
    "name" TEXT NOT NULL,
    "value" JSONB NOT NULL,
    "changed_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "changed_by" TEXT NOT NULL,

    CONSTRAINT "setting_pkey" PRIMARY KEY ("name")
);

-- CreateTable
CREATE TABLE "run_limit" (
    "run" TEXT NOT NULL,
    "max_queued_samples" INTEGER,
    "max_open_batches" INTEGER,
    "max_priority" INTEGER,
    "changed_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "changed_by" TEXT NOT NULL,

    CONSTRAINT "run_limit_pkey" PRIMARY KEY ("run")
);

-- CreateTable
CREATE TABLE "run_kept" (
    "run" TEXT NOT NULL,
    "kept_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "kept_by" TEXT NOT NULL,

    CONSTRAINT "run_kept_pkey" PRIMARY KEY ("run")
);

-- CreateTable
CREATE TABLE "retention_job" (
    "id" SERIAL NOT NULL,
    "kind" TEXT NOT NULL,
    "run" TEXT,
    "last_batch_id" INTEGER,
    "state" TEXT NOT NULL,
    "requested_by" TEXT NOT NULL,
    "policy" JSONB,
    "progress" JSONB NOT NULL DEFAULT '{}',
    "problem" TEXT,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "ended_at" TIMESTAMPTZ(6),

    CONSTRAINT "retention_job_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "audit_event" (
    "id" BIGSERIAL NOT NULL,
    "at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "actor" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "action" TEXT NOT NULL,
    "target" TEXT NOT NULL,
    "changes" JSONB NOT NULL DEFAULT '[]',

    CONSTRAINT "audit_event_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "removal" (
    "batch_id" INTEGER NOT NULL,
    "job_id" INTEGER NOT NULL,
    "text_bucket" DATE NOT NULL,
    "whole" BOOLEAN NOT NULL,
    "keep_roll_ups" BOOLEAN NOT NULL,
    "begun" BOOLEAN NOT NULL DEFAULT false,

    CONSTRAINT "removal_pkey" PRIMARY KEY ("batch_id")
);

-- CreateIndex
CREATE UNIQUE INDEX "api_key_hash_key" ON "api_key"("hash");

-- CreateIndex
CREATE UNIQUE INDEX "api_key_session_hash_key" ON "api_key"("session_hash");

-- CreateIndex
CREATE INDEX "audit_event_actor_id_idx" ON "audit_event"("actor", "id");

-- CreateIndex
CREATE INDEX "audit_event_action_id_idx" ON "audit_event"("action", "id");

-- CreateIndex
CREATE INDEX "removal_text_bucket_idx" ON "removal"("text_bucket");

-- CreateIndex
CREATE INDEX "batch_text_bucket_idx" ON "batch"("text_bucket");

-- CreateIndex
CREATE INDEX "score_key_batch_id_idx" ON "score_key"("batch_id");

-- A name tells one key from the others for as long as both work.
CREATE UNIQUE INDEX "api_key_name_living" ON "api_key"("name") WHERE "revoked_at" IS NULL;
-- One removal at a time, whichever process does it.
CREATE UNIQUE INDEX "retention_job_running" ON "retention_job"("state") WHERE "state" = 'running';
-- What a run has under way is counted with each of its submits, where it has limits.
CREATE INDEX "batch_under_way" ON "batch"("run_id") WHERE "status" IN ('open', 'running');
