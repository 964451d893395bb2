import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SHARED_SECRETS_KEY } from '../service/service.ts'
import { type PlantedBug, patched, pathOf } from './planted-bugs.ts'
import { tail } from './postgres-cluster.ts'
import { freePort, launch, MARK, poll, signal } from './processes.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Paths of the tree that a server and its workers read. */
const PARTS = ['server', 'prisma', 'packages', 'package.json']
const START_MS = 90_000

export class SourceTree {
  readonly root: string
  /** Data folder of a migrated cluster that was shut down cleanly. */
  readonly template: string
  readonly #folder: string

  private constructor(root: string, template: string, folder: string) {
    this.root = root
    this.template = template
    this.#folder = folder
  }

  static async make(bug: PlantedBug | null): Promise<SourceTree> {
    const folder = mkdtempSync(join(tmpdir(), 'chaos-tree-'))
    execFileSync('chmod', ['755', folder])
    const root = bug === null ? ROOT : join(folder, 'tree')
    if (bug !== null) {
      for (const part of PARTS) cpSync(join(ROOT, part), join(root, part), { recursive: true })
      symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
      for (const patch of bug.patches) {
        const path = pathOf(patch.file, root)
        writeFileSync(path, patched(readFileSync(path, 'utf8'), patch))
      }
    }
    const template = join(folder, 'data/postgres')
    const tree = new SourceTree(root, template, folder)
    await tree.#migrate()
    return tree
  }

  copyTemplate(folder: string): void {
    execFileSync('cp', ['-a', this.template, folder])
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** Starts the service once, so that its own code creates and migrates the database. */
  async #migrate(): Promise<void> {
    const port = await freePort()
    const log = join(this.#folder, 'template.log')
    const running = launch({
      command: process.execPath,
      args: ['server/main.ts'],
      cwd: this.root,
      log,
      env: {
        PORT: String(port),
        REWARDOPS_DATA_DIR: join(this.#folder, 'data'),
        REWARDOPS_PAGES: '0',
        REWARDOPS_WORKERS: '0',
        NODE_ENV: 'production',
        ...SHARED_SECRETS_KEY,
        [MARK]: `template-${process.pid}`,
      },
    })
    const start = await poll(async () => {
      if (!running.isAlive) return 'ended'
      return (await fetch(`http://127.0.0.1:${port}/healthz`)).status === 200 ? 'up' : null
    }, START_MS)
    signal(running.pid, 'SIGTERM')
    await running.ended
    if (start !== 'up') throw new Error(`the service did not start:\n${tail(log)}`)
  }
}
