-- Servers and workers are processes of one kind to the database: each has an identity, under which it leases, reports and
-- is missed. Any number of servers share a database.
ALTER TABLE "worker" RENAME TO "process";
ALTER TABLE "process" RENAME CONSTRAINT "worker_pkey" TO "process_pkey";
ALTER INDEX "worker_state_idx" RENAME TO "process_state_idx";
ALTER SEQUENCE "worker_id_seq" RENAME TO "process_id_seq";
ALTER TABLE "process" ADD COLUMN "role" TEXT NOT NULL DEFAULT 'worker';
ALTER TABLE "process" ALTER COLUMN "role" DROP DEFAULT;
ALTER TABLE "process" ADD COLUMN "version" INTEGER NOT NULL DEFAULT 0;

-- A share counts until its holder has renewed it, or for this long after it expired: calls that a stopped holder
-- dispatched may still be in flight.
ALTER TABLE "lease" ADD COLUMN "grace_ms" INTEGER NOT NULL DEFAULT 0;

-- Which server runs a kind of background work; anybody's after `until`.
CREATE TABLE "background_turn" (
    "kind" TEXT NOT NULL,
    "process_id" INTEGER NOT NULL,
    "until" TIMESTAMPTZ(6) NOT NULL,

    CONSTRAINT "background_turn_pkey" PRIMARY KEY ("kind")
);

-- Versions of the schema that this database went through. The highest row is the present one.
CREATE TABLE "schema_version" (
    "version" INTEGER NOT NULL,
    -- The oldest version of the program that works on it.
    "compatible_from" INTEGER NOT NULL,
    "installed_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "schema_version_pkey" PRIMARY KEY ("version")
);

-- Functions live in a schema of their own, named by their content (server/store/functions): two versions of the program
-- side by side never replace each other's.
ALTER TABLE "process" ADD COLUMN "functions" TEXT;
DROP FUNCTION settle_groups, flush_results, end_pending, settle_batch, renew_lease, append_singles, take_rate,
    apply_failure_policy, stage_results, finish_staged, readable_json;

-- A worker of before there were versions registers here, and is refused in words it prints.
CREATE VIEW "worker" AS SELECT * FROM "process" WHERE "role" = 'worker';
CREATE FUNCTION refuse_unversioned_worker() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this database is used by a newer version of rewardops, which does not work beside this one. Upgrade this worker to the version of the server.';
END $$;
CREATE TRIGGER "refuse_unversioned_worker" INSTEAD OF INSERT ON "worker"
    FOR EACH ROW EXECUTE FUNCTION refuse_unversioned_worker();
