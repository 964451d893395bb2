import { UpdatePoolInput } from '../contract/pools.ts'
import {
  LaunchServerInput,
  RegisterServerInput,
  ServerLogInput,
  ServerRef,
  SleepServerInput,
  UpdateServerInput,
  WakeServerInput,
} from '../contract/servers.ts'
import { settingsOfRow } from '../store/sql/servers.ts'
import { named, nameOrId } from './procedure-meta.ts'
import { nothing, procedure, router } from './trpc.ts'

const changingProcedure = procedure.meta({
  role: 'admin',
  audit: {
    target: nameOrId,
    refs: ['id', 'name'],
    // A command may contain keys. `look` returns the stored command, in which they are masked.
    secrets: ['command'],
    async look({ models }, { id, name }) {
      const row = await models.find({ id, name } as ServerRef)
      const { state, url, engine, kind, model, launch } = row
      return {
        ...{ state, url, engine, kind, model, ...settingsOfRow(row) },
        ...(launch && { command: launch.argv, cwd: launch.cwd }),
      }
    },
  },
})

export const serversRouter = router({
  /** Lists all reward-model servers. */
  list: procedure
    .meta({ runFields: null })
    .input(nothing)
    .query(({ ctx }) => ctx.fleet.servers()),
  /**
   * Returns a server with its events, its statistics per minute and its share of the pool.
   * @throws server_not_found
   * @example {"name": "rm-0"}
   */
  get: procedure.input(ServerRef).query(({ ctx, input }) => ctx.servers.get(input)),
  /** Returns the monitor findings of all servers. */
  monitors: procedure.input(nothing).query(({ ctx }) => ctx.servers.monitors()),
  /**
   * Returns the last lines that a launched server printed. Only admins may read them.
   * @throws server_not_found, server_not_launched
   * @example {"name": "rm-0", "lines": 100}
   */
  log: procedure
    // The output may contain texts of all runs and paths on the host.
    .meta({ role: 'admin' })
    .input(ServerLogInput)
    .query(({ ctx, input }) => ctx.models.log(input, input.lines)),
  /**
   * Starts a server process on the service's machine and keeps it running.
   * @throws launch_disabled, server_busy, forbidden_url, unsupported_setting
   * @example {"name": "rm-0", "engine": "vllm", "port": 8100, "command": ["vllm", "serve", "my/reward-model",
   * "--port", "8100"]}
   */
  launch: changingProcedure
    .input(LaunchServerInput)
    .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.launch(input))),
  /**
   * Registers a server after a probe and a self-test. Registering the same name again updates the server.
   * @throws forbidden_url, server_unreachable, server_redirects, server_not_recognized, model_not_served,
   * key_refused, server_busy, unsupported_setting
   * @example {"name": "rm-0", "url": "http://10.0.0.5:8000", "engine": "auto", "maxInFlight": 32}
   */
  register: changingProcedure
    .input(RegisterServerInput)
    .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.register(input))),
  /**
   * Changes fields of a server. The fields are those of servers.register; null restores the default. A new URL or key
   * is probed first. A new chat template, route or label repeats the self-test.
   * @throws server_not_found, forbidden_url, server_unreachable, server_redirects, server_not_recognized,
   * model_not_served, key_refused, server_busy, unsupported_setting
   * @example {"name": "rm-0", "weight": 2}
   */
  update: changingProcedure.input(UpdateServerInput).mutation(async ({ ctx, input }) => {
    const { id, name, ...changes } = input
    return ctx.fleet.describe(await ctx.models.update({ id, name }, changes))
  }),
  /**
   * Stops new traffic to a server. Requests in flight complete.
   * @throws server_not_found, server_busy
   * @example {"name": "rm-0"}
   */
  drain: changingProcedure
    .input(ServerRef)
    .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.drain(input))),
  /**
   * Resumes traffic to a drained server after a probe and a self-test.
   * @throws server_not_found, server_busy, server_unreachable
   * @example {"name": "rm-0"}
   */
  resume: changingProcedure
    .input(ServerRef)
    .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.resume(input))),
  /**
   * Puts a server to sleep and frees its GPU memory.
   * @throws server_not_found, server_busy, server_cannot_sleep, server_unreachable
   * @example {"name": "rm-0", "level": 1}
   */
  sleep: changingProcedure
    .input(SleepServerInput)
    .mutation(async ({ ctx, input }) =>
      ctx.fleet.describe(await ctx.models.sleep(input, input.level)),
    ),
  /**
   * Wakes a sleeping server.
   * @throws server_not_found, server_busy, server_cannot_sleep, server_unreachable
   * @example {"name": "rm-0", "awakeForMs": 600000}
   */
  wake: changingProcedure
    .input(WakeServerInput)
    .mutation(async ({ ctx, input }) =>
      ctx.fleet.describe(await ctx.models.wake(input, input.awakeForMs)),
    ),
  /**
   * Probes a server now and runs the self-test.
   * @throws server_not_found, server_busy
   * @example {"name": "rm-0"}
   */
  probe: changingProcedure
    .input(ServerRef)
    .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.probe(input))),
  /**
   * Removes a server and ends its process if it was launched. Samples that it scored keep its name.
   * @throws server_not_found, server_busy
   * @example {"name": "rm-0"}
   */
  remove: changingProcedure
    .input(ServerRef)
    .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.remove(input))),
})

export const poolsRouter = router({
  /** Lists the pools: the servers of each model with the balancing policy and the waiting jobs. */
  list: procedure
    .meta({ runFields: null })
    .input(nothing)
    .query(({ ctx }) => ctx.fleet.pools()),
  /**
   * Sets the balancing policy of a model.
   * @throws unknown_model
   * @example {"model": "rm-8b", "policy": "group_affinity"}
   */
  update: procedure
    .meta({
      role: 'admin',
      audit: {
        target: named('model'),
        refs: ['model'],
        look: async ({ fleet }, { model }) => {
          const pool = (await fleet.pools()).find((one) => one.model === model)
          return pool && { policy: pool.hasChosenPolicy ? pool.policy : 'default' }
        },
      },
    })
    .input(UpdatePoolInput)
    .mutation(({ ctx, input }) => ctx.fleet.setPolicy(input)),
})
