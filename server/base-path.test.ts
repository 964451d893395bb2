import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { basePathProblem, OWN_PARTS, withoutBasePath } from './base-path.ts'
import { EXPORT_PATH } from './contract/export.ts'
import { IMAGES_PATH } from './contract/images.ts'
import { PROXIED_PATHS } from './contract/proxied-paths.ts'
import { COMPAT_PATH } from './http/compat/compat.ts'
import { HEALTH_PATHS } from './http/health.ts'
import { MODELS_PATH } from './http/proxy/routes.ts'
import { STATIC_PATH } from './http/static-files.ts'

test.each(['', '/rewardops', '/ml/reward-ops', '/a.b_c~d/2'])(
  'the prefix %j is accepted',
  (path) => {
    expect(basePathProblem(path)).toBeNull()
  },
)

test.each([
  ...['rewardops', '/', '/rewardops/', '//rewardops', '/a//b', '/a/../b', '/..', '/.', '/a b'],
  ...['/a?b', '/a#b', '/a%2fb', '/ü', '/a\nb', '/"a"', '/$&', 'https://host/rewardops'],
])('the prefix %j is refused', (path) => {
  expect(basePathProblem(path)).toMatch(/expected a path such as \/rewardops/)
})

test('a path of the service itself cannot be a prefix', () => {
  const root = new URL('../app/', import.meta.url)
  const pages = [...readdirSync(new URL('(shell)/', root)), ...readdirSync(root)].filter(
    (name) => !/\.tsx$|\.css$|^\(/.test(name),
  )
  const routes = [...HEALTH_PATHS, ...PROXIED_PATHS, MODELS_PATH, COMPAT_PATH, STATIC_PATH]
  for (const path of [
    ...routes,
    EXPORT_PATH,
    IMAGES_PATH,
    '/metrics',
    ...pages.map((p) => `/${p}`),
  ])
    expect(OWN_PARTS, path).toContain(path.split('/')[1])
  expect(basePathProblem('/api')).toBe('/api is a path of the service itself')
  expect(basePathProblem('/runs/x')).toBe('/runs is a path of the service itself')
})

test.each([
  ['/rewardops', '/'],
  ['/rewardops/', '/'],
  ['/rewardops?x=1', '/?x=1'],
  ['/rewardops/batches/b1?x=/rewardops/', '/batches/b1?x=/rewardops/'],
  ['/rewardops/rewardops', '/rewardops'],
  // URLs without the prefix stay unchanged, because a proxy may have removed it.
  ['/batches', '/batches'],
  ['/', '/'],
  ['/rewardopsx/batches', '/rewardopsx/batches'],
  ['*', '*'],
])('%s is %s below /rewardops', (url, expected) => {
  expect(withoutBasePath(url, '/rewardops')).toBe(expected)
  expect(withoutBasePath(url, '')).toBe(url)
})
