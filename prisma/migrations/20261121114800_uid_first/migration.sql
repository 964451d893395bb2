-- By uid first: the index of (batch, uid) begins as that of (batch, number) does, and without statistics was taken for look-ups by
-- number. Each then walked all groups of its batch.
DROP INDEX "sample_group_batch_id_uid_key";
CREATE UNIQUE INDEX "sample_group_uid_batch_id_key" ON "sample_group"("uid", "batch_id");
