// Plain JavaScript, because Node 20 cannot run TypeScript.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * Bundles a TypeScript package, without its dependencies, and writes its type declarations. Builds are reproducible.
 * @param {string} folder the package's folder, with `package.json` and `src/index.ts`
 * @param {string} outDir replaced if it exists
 * @returns {Promise<void>}
 */
export async function buildPackage(folder, outDir = join(folder, 'dist')) {
  const entry = join(folder, 'src/index.ts')
  const { dependencies = {}, peerDependencies = {} } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  )
  rmSync(outDir, { recursive: true, force: true })
  const bundle = await rolldown({
    input: entry,
    external: Object.keys({ ...dependencies, ...peerDependencies }).map(
      (name) => new RegExp(`^${name}(/|$)`),
    ),
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
      files: [entry],
    }),
  )
  execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', config], {
    stdio: 'inherit',
  })
  rmSync(config)
  const types = relative(root, entry).replace(/\.ts$/, '.d.ts')
  keepReachable(join(outDir, 'all-types'), join(outDir, 'types'), types)
  rmSync(join(outDir, 'all-types'), { recursive: true })
}

/** Internal types of the service's procedures, by file. Callers never see them, and they reference the whole service. */
const INTERNAL = {
  'server/api/context.d.ts': 'RequestContext',
  'server/api/procedure-meta.d.ts': 'ProcedureMeta',
}

/**
 * Copies the declarations reachable from `entry`. The internal types become `object`.
 * @param {string} from
 * @param {string} to
 * @param {string} entry
 */
function keepReachable(from, to, entry) {
  for (const [file, type] of Object.entries(INTERNAL)) {
    const path = join(from, file)
    if (!existsSync(path)) continue
    writeFileSync(path, `/** Internal to the service. */\nexport type ${type} = object\n`)
  }
  const reached = new Set()
  const reach = (file) => {
    if (reached.has(file)) return
    reached.add(file)
    cpSync(join(from, file), join(to, file))
    const text = readFileSync(join(from, file), 'utf8')
    for (const [, specifier] of text.matchAll(/(?:from |import\()["'](\..*?)["']/g)) {
      reach(join(dirname(file), specifier.replace(/\.[jt]s$/, '.d.ts')))
    }
  }
  reach(entry)
}

// `import.meta.main` needs Node 24.
if (realpathSync(process.argv[1] ?? '') === fileURLToPath(import.meta.url)) {
  await buildPackage(resolve(process.argv[2] ?? '.'))
}
