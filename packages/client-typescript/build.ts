import { execFileSync } from 'node:child_process'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { rolldown } from 'rolldown'

const here = import.meta.dirname
const root = join(here, '../..')

/**
 * Builds the package: one file of JavaScript with the client alone in it, and the declarations of everything its types
 * reach, the router's among them. Nothing of the service runs where the client does.
 * @param outDir where to, `dist` beside this file by default
 */
export async function buildClient(outDir: string = join(here, 'dist')): Promise<void> {
  rmSync(outDir, { recursive: true, force: true })
  const bundle = await rolldown({
    input: join(here, 'src/index.ts'),
    external: [/^@trpc\//],
    platform: 'neutral',
    treeshake: true,
  })
  await bundle.write({ file: join(outDir, 'index.js'), format: 'esm' })
  await bundle.close()
  const config = join(outDir, 'tsconfig.json')
  writeFileSync(
    config,
    JSON.stringify({
      extends: join(root, 'tsconfig.json'),
      compilerOptions: {
        noEmit: false,
        incremental: false,
        declaration: true,
        emitDeclarationOnly: true,
        allowImportingTsExtensions: false,
        rewriteRelativeImportExtensions: true,
        rootDir: root,
        outDir: join(outDir, 'all-types'),
        typeRoots: [join(root, 'node_modules/@types')],
        plugins: [],
      },
      include: [],
      exclude: [],
      files: [join(here, 'src/index.ts')],
    }),
  )
  execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', config], {
    stdio: 'inherit',
  })
  rmSync(config)
  keepReachable(join(outDir, 'all-types'), join(outDir, 'types'))
  rmSync(join(outDir, 'all-types'), { recursive: true })
}

/**
 * Copies the declarations that the package's own reach. The context of the service's procedures is left out: callers never see
 * it, and it names every module of the service, down to the database driver.
 */
function keepReachable(from: string, to: string): void {
  writeFileSync(
    join(from, 'server/api/context.d.ts'),
    '/** Known to the service alone. */\nexport type RequestContext = object\n',
  )
  const reached = new Set<string>()
  const reach = (file: string): void => {
    if (reached.has(file)) return
    reached.add(file)
    cpSync(join(from, file), join(to, file))
    const text = readFileSync(join(from, file), 'utf8')
    for (const [, specifier] of text.matchAll(/(?:from |import\()["'](\..*?)["']/g))
      reach(join(dirname(file), (specifier as string).replace(/\.[jt]s$/, '.d.ts')))
  }
  reach('packages/client-typescript/src/index.d.ts')
}

if (import.meta.main) await buildClient(process.argv[2] && resolve(process.argv[2]))
