import { expect, test } from '@playwright/test'
import { freePort } from '../examples/processes/port.ts'
import {
  type ReferenceRmProcess,
  startReferenceRmProcess,
} from '../examples/processes/reference-rm.ts'
import { expectAccessible, watchErrors } from './fixtures/look.ts'
import { startTestService, type TestService } from './fixtures/service.ts'

let service: TestService
let rm: ReferenceRmProcess
test.beforeAll(async () => {
  ;[service, rm] = await Promise.all([startTestService(), startReferenceRmProcess()])
})
test.afterAll(() => Promise.all([service.stop(), rm.stop()]))

test('a server is refused where it is wrong, kept when asked, and driven from its row', async ({
  page,
}) => {
  await page.goto(`${service.url}/servers`)
  await page.getByRole('button', { name: 'Register a server' }).click()
  const form = page.getByRole('dialog', { name: 'Register a server' })
  await expectAccessible(page)

  // Nothing typed, nothing sent.
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form.getByLabel('Address', { exact: true })).toHaveAttribute('aria-invalid', 'true')
  await expect(form.getByLabel('Name', { exact: true })).toHaveAttribute('aria-invalid', 'true')

  // An address the service does not want, and one that does not answer.
  await form.getByLabel('Name', { exact: true }).fill('loading')
  await form.getByLabel('Address', { exact: true }).fill('file:///etc/passwd')
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form.getByText(/http:\/\/ or https:\/\//)).toBeVisible()
  const nobody = `http://127.0.0.1:${await freePort()}`
  await form.getByLabel('Address', { exact: true }).fill(nobody)
  await form.getByLabel('Engine', { exact: true }).selectOption('vllm')
  await form.getByLabel('Model', { exact: true }).fill(rm.model)
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form.getByRole('alert').first()).toBeVisible()
  await expect(form.getByLabel('Address', { exact: true })).toHaveAttribute('aria-invalid', 'true')
  await expectAccessible(page)

  // Kept all the same, because it is still loading.
  await form.getByLabel('Save it and go on asking').check()
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form).toHaveCount(0)
  const loading = page.locator('[data-server="loading"]')
  await expect(loading).toContainText('unreachable')

  // One that answers says itself what it is.
  const errors = watchErrors(page)
  await page.getByRole('button', { name: 'Register', exact: true }).click()
  await form.getByLabel('Address', { exact: true }).fill(rm.url)
  await form.getByLabel('Name', { exact: true }).fill('rm-1')
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form).toHaveCount(0)
  const row = page.locator('[data-server="rm-1"]')
  await expect(row).toContainText('ready')
  await expect(row).toContainText('vllm')

  const act = async (name: string, item: RegExp) => {
    await page.getByRole('button', { name: `Actions for ${name}` }).click()
    await page.getByRole('menuitem', { name: item }).click()
  }
  await act('rm-1', /Drain/)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Drain it' }).click()
  await expect(row).toContainText('draining')
  await act('rm-1', /Resume/)
  await expect(row).toContainText('ready')
  await act('rm-1', /Ask it now/)
  await act('loading', /Remove/)
  await page.getByRole('button', { name: 'Keep it' }).click()
  await expect(loading).toBeVisible()
  await act('loading', /Remove/)
  await page.getByRole('button', { name: 'Remove it' }).click()
  await expect(loading).toHaveCount(0)
  errors.expectNone()
})
