import type { Database } from '../database.ts'

/** A request to the token bucket of a limit per minute. */
export interface RatePart {
  /** Amount used beyond earlier grants. A negative amount is the unused part of a grant, which is put back. */
  charge: number
  want: number
  /** The smallest useful grant. */
  least: number
  /** Amount that is granted in addition, even if the bucket holds less. The bucket is then in debt. */
  beyond: number
  perMinute: number
  bucket: number
}

/** The granted amounts. Either both limits grant their part, or neither does. */
export interface RateAnswer {
  granted: boolean
  /** A whole number; 0 if requests are not limited. */
  requests: number
  tokens: number
  /** True if at least one bucket had less than requested. */
  short: boolean
  /** The amount missing for one more sample; 0 if everything was granted. */
  requestsMissing: number
  tokensMissing: number
}

/**
 * Takes requests and tokens from a server's limits per minute: enough of both for a sample, or nothing. The same
 * statement puts back fractions of a request, and the grant of one bucket if the other one granted too little.
 */
export async function takeRate(
  db: Database,
  serverId: number,
  ask: { requests: RatePart | null; tokens: RatePart | null },
): Promise<RateAnswer> {
  const { requests: r, tokens: t } = ask
  const [row] = await db.rows<{
    requests: number | null
    tokens: number | null
    granted: boolean
    kept: number
  }>(
    'take-rate',
    // Each subquery reads the previous one, so Postgres runs them in this order.
    `with r as materialized (
       select case when $4::float8 is not null then take_rate($1, $2, $3, $4, $5) end as requests),
     t as materialized (
       select requests, case when $11::float8 is not null then take_rate($8, $9, $10, $11, $12) end as tokens from r),
     g as materialized (
       select requests, tokens, coalesce(requests >= $6::float8 - 1e-6, true)
                                and coalesce(tokens >= $13::float8 - 1e-6, true) as granted from t),
     k as materialized (
       select *, case when granted then floor(coalesce(requests, 0) + 1e-6) else 0 end as kept from g),
     a as materialized (
       select k.*, case when requests > kept then take_rate($1, kept - requests, 0, $4, $5) end as back from k),
     b as materialized (
       select a.*, case when tokens is null then null
                        when not granted then take_rate($8, -tokens, 0, $11, $12)
                        when $7::float8 > 0 then take_rate($8, $7, 0, $11, $12) end as beyond from a)
     select requests, tokens, granted, kept from b`,
    [
      `server:${serverId}:rpm`,
      r?.charge ?? 0,
      r?.want ?? 0,
      r?.perMinute ?? null,
      r?.bucket ?? null,
      r?.least ?? 0,
      t?.beyond ?? 0,
      `server:${serverId}:tpm`,
      t?.charge ?? 0,
      t?.want ?? 0,
      t?.perMinute ?? null,
      t?.bucket ?? null,
      t?.least ?? 0,
    ],
  )
  const { requests, tokens, granted, kept } = row!
  const shortR = r !== null && (requests ?? 0) < r.want
  const shortT = t !== null && (tokens ?? 0) < t.want
  return {
    granted,
    requests: r ? kept : 0,
    tokens: t && granted ? (tokens ?? 0) + t.beyond : 0,
    short: shortR || shortT,
    requestsMissing: shortR ? r.least - ((requests ?? 0) - kept) : 0,
    tokensMissing: shortT ? t.least - (granted ? 0 : (tokens ?? 0)) : 0,
  }
}

/**
 * Takes an amount from a limit per minute, even if the bucket holds less. Returns the time in ms until the bucket
 * covers the amount, or 0 if the bucket already does. Callers wait that long, so together they stay within the limit.
 * A negative amount is put back.
 * @param capacity content of a full bucket
 */
export async function reserveRate(
  db: Database,
  resource: string,
  amount: number,
  perMinute: number,
  capacity: number,
): Promise<number> {
  const [row] = await db.rows<{ wait_ms: number }>(
    'reserve-rate',
    `insert into rate_bucket as b (resource, level, filled_at)
     values ($1, $4::float8 - greatest(0, $2::float8), clock_timestamp())
     on conflict (resource) do update set
       level = least($4, least($4, b.level + greatest(0, extract(epoch from clock_timestamp() - b.filled_at))
                                             * $3::float8 / 60) - $2),
       filled_at = clock_timestamp()
     returning greatest(0, -level) * 60000 / $3 as wait_ms`,
    [resource, amount, perMinute, capacity],
  )
  // Less than a microsecond is a rounding error.
  return row!.wait_ms < 1e-3 ? 0 : row!.wait_ms
}

/**
 * Returns the limits in force for a limiter: the limits that its first caller sent, until the limiter has been unused
 * for `idleMs`. Callers that use the limiter repeat this call well within that time.
 */
export async function agreeOnLimits<Limits extends object>(
  db: Database,
  limiter: string,
  limits: Limits,
  idleMs: number,
): Promise<Limits> {
  const [row] = await db.rows<{ limits: Limits }>(
    'agree-on-limits',
    `insert into call_limiter as l (name, limits, used_at) values ($1, $2::jsonb, clock_timestamp())
     on conflict (name) do update set
       limits = case when l.used_at < clock_timestamp() - $3 * interval '1 millisecond'
                     then excluded.limits else l.limits end,
       used_at = clock_timestamp()
     returning limits`,
    [limiter, JSON.stringify(limits), idleMs],
  )
  return row!.limits
}
