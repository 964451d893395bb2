import type { RewardModelDto, RewardsDto } from '../contract/rewards.ts'
import { mayDo, type Role } from '../contract/roles.ts'
import { describeJudges, describeManagers, describeRules } from '../rewards/registered.ts'
import type { FleetView } from './fleet-view.ts'
import type { FunctionsFolder } from './functions-folder.ts'

export class RewardsView {
  readonly #fleet: FleetView
  readonly #folder: FunctionsFolder

  constructor(fleet: FleetView, folder: FunctionsFolder) {
    this.#fleet = fleet
    this.#folder = folder
  }

  /**
   * Returns the available rules, managers, judges, models and functions. Only admins see the path of the functions
   * folder.
   */
  async get(role: Role): Promise<RewardsDto> {
    const [servers, functions] = await Promise.all([this.#fleet.servers(), this.#folder.list()])
    const byModel = Map.groupBy(servers, (server) => server.model)
    const models = [...byModel].map(
      ([model, of]): RewardModelDto => ({
        model,
        kind: of[0]!.kind,
        servers: of.map(({ name, state, engine, version }) => ({ name, state, engine, version })),
      }),
    )
    return {
      rules: describeRules(),
      managers: describeManagers(),
      judges: describeJudges(),
      models: models.sort((a, b) => a.model.localeCompare(b.model)),
      functions: { folder: mayDo(role, 'admin') ? this.#folder.folder : null, ...functions },
    }
  }
}
