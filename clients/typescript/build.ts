import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
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
        outDir: join(outDir, 'types'),
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
}

if (import.meta.main) await buildClient(process.argv[2] && resolve(process.argv[2]))
