-- AlterTable
ALTER TABLE "batch" ADD COLUMN     "monitored" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "batch_roll_up" ADD COLUMN     "duplicates" INTEGER,
ADD COLUMN     "duplicates_of" INTEGER,
ADD COLUMN     "group_std" DOUBLE PRECISION,
ADD COLUMN     "group_std_of" INTEGER,
ADD COLUMN     "length_correlation" DOUBLE PRECISION,
ADD COLUMN     "length_n" INTEGER,
ADD COLUMN     "length_unit" TEXT;

-- CreateTable
CREATE TABLE "monitor_evaluation" (
    "batch_id" INTEGER NOT NULL,
    "run_id" INTEGER NOT NULL,
    "split" TEXT NOT NULL,
    "step" INTEGER NOT NULL,
    "at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "values" JSONB NOT NULL,

    CONSTRAINT "monitor_evaluation_pkey" PRIMARY KEY ("batch_id")
);

-- CreateTable
CREATE TABLE "monitor_standing" (
    "run_id" INTEGER NOT NULL,
    "split" TEXT NOT NULL,
    "step" INTEGER NOT NULL,
    "batch_id" INTEGER NOT NULL,
    "at" TIMESTAMPTZ(6) NOT NULL,
    "monitors" JSONB NOT NULL,

    CONSTRAINT "monitor_standing_pkey" PRIMARY KEY ("run_id","split")
);

-- CreateTable
CREATE TABLE "monitor_incident" (
    "id" SERIAL NOT NULL,
    "monitor" TEXT NOT NULL,
    "run_id" INTEGER,
    "split" TEXT,
    "subject" TEXT,
    "severity" TEXT NOT NULL,
    "opened_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "opened_step" INTEGER,
    "opened_batch" INTEGER,
    "value" DOUBLE PRECISION,
    "threshold" DOUBLE PRECISION,
    "worst" DOUBLE PRECISION,
    "worst_step" INTEGER,
    "detail" TEXT,
    "closed_at" TIMESTAMPTZ(6),
    "closed_step" INTEGER,
    "closed_batch" INTEGER,
    "closed_value" DOUBLE PRECISION,

    CONSTRAINT "monitor_incident_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "monitor_setting" (
    "run_id" INTEGER NOT NULL,
    "monitor" TEXT NOT NULL,
    "enabled" BOOLEAN,
    "warning" DOUBLE PRECISION,
    "alerting" DOUBLE PRECISION,
    "open_after" INTEGER,
    "changed_by" TEXT NOT NULL,
    "changed_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "monitor_setting_pkey" PRIMARY KEY ("run_id","monitor")
);

-- CreateTable
CREATE TABLE "webhook" (
    "id" SERIAL NOT NULL,
    "name" TEXT NOT NULL,
    "url" TEXT NOT NULL,
    "secret" TEXT,
    "severities" TEXT[],
    "monitors" TEXT[],
    "runs" TEXT[],
    "fleet" BOOLEAN NOT NULL DEFAULT true,
    "enabled" BOOLEAN NOT NULL DEFAULT true,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "created_by" TEXT NOT NULL,

    CONSTRAINT "webhook_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "alert_event" (
    "id" UUID NOT NULL,
    "incident_id" INTEGER,
    "kind" TEXT NOT NULL,
    "payload" JSONB NOT NULL,
    "at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "alert_event_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "alert_delivery" (
    "id" SERIAL NOT NULL,
    "webhook_id" INTEGER NOT NULL,
    "event_id" UUID NOT NULL,
    "state" TEXT NOT NULL,
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "next_at" TIMESTAMPTZ(6) DEFAULT CURRENT_TIMESTAMP,
    "tried_at" TIMESTAMPTZ(6),
    "status" INTEGER,
    "latency_ms" REAL,
    "error" TEXT,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "alert_delivery_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "run_mark" (
    "id" SERIAL NOT NULL,
    "run_id" INTEGER NOT NULL,
    "step" INTEGER NOT NULL,
    "label" TEXT NOT NULL,
    "note" TEXT NOT NULL DEFAULT '',
    "author" TEXT NOT NULL,
    "at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "run_mark_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "monitor_evaluation_run_id_split_batch_id_idx" ON "monitor_evaluation"("run_id", "split", "batch_id");

-- CreateIndex
CREATE INDEX "monitor_standing_batch_id_idx" ON "monitor_standing"("batch_id");

-- CreateIndex
CREATE INDEX "monitor_incident_run_id_id_idx" ON "monitor_incident"("run_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "webhook_name_key" ON "webhook"("name");

-- CreateIndex
CREATE INDEX "alert_event_at_idx" ON "alert_event"("at");

-- CreateIndex
CREATE INDEX "alert_delivery_webhook_id_id_idx" ON "alert_delivery"("webhook_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "alert_delivery_event_id_webhook_id_key" ON "alert_delivery"("event_id", "webhook_id");

-- CreateIndex
CREATE INDEX "run_mark_run_id_step_idx" ON "run_mark"("run_id", "step");

-- Batches that wait for the monitors: those of before this migration first, then a few at a time.
CREATE INDEX "batch_to_monitor" ON "batch"("id") WHERE NOT "monitored";

-- One open incident of a kind: whoever opens a second one did not look.
CREATE UNIQUE INDEX "monitor_incident_open" ON "monitor_incident"("monitor", (coalesce("run_id", 0)), (coalesce("split", '')), (coalesce("subject", '')))
    WHERE "closed_at" IS NULL;

CREATE INDEX "alert_delivery_waiting" ON "alert_delivery"("next_at") WHERE "state" = 'waiting';
