-- CreateTable
CREATE TABLE "rescore_part" (
    "batch_id" INTEGER NOT NULL,
    "from_idx" INTEGER[],

    CONSTRAINT "rescore_part_pkey" PRIMARY KEY ("batch_id")
);

-- CreateTable
CREATE TABLE "batch_extra_key" (
    "batch_id" INTEGER NOT NULL,
    "key" TEXT NOT NULL,
    "samples" INTEGER NOT NULL,
    "numbers" INTEGER NOT NULL,
    "booleans" INTEGER NOT NULL,
    "texts" INTEGER NOT NULL,
    "min" DOUBLE PRECISION,
    "max" DOUBLE PRECISION,
    "values" JSONB,

    CONSTRAINT "batch_extra_key_pkey" PRIMARY KEY ("batch_id","key")
);

-- CreateTable
CREATE TABLE "sample_annotation" (
    "id" BIGSERIAL NOT NULL,
    "batch_id" INTEGER NOT NULL,
    "idx" INTEGER NOT NULL,
    "label" TEXT NOT NULL,
    "note" TEXT,
    "author" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(6),

    CONSTRAINT "sample_annotation_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "saved_view" (
    "id" SERIAL NOT NULL,
    "page" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "state" TEXT NOT NULL,
    "version" INTEGER NOT NULL,
    "author" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "saved_view_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "sample_annotation_batch_id_idx_idx" ON "sample_annotation"("batch_id", "idx");

-- CreateIndex
CREATE INDEX "sample_annotation_label_batch_id_idx_idx" ON "sample_annotation"("label", "batch_id", "idx");

-- CreateIndex
CREATE UNIQUE INDEX "saved_view_page_name_key" ON "saved_view"("page", "name");

-- JSON whose strings Postgres can decode: an escaped NUL and lone halves of surrogate pairs become U+FFFD. What has no escape is
-- given back as it is.
CREATE FUNCTION readable_json(doc json) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN doc::text LIKE '%\\u%' THEN regexp_replace(doc::text,
        '\\u0000|\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}',
        '\\uFFFD', 'g')::json ELSE doc END
$$;
