import type { Metadata } from 'next'
import { connection } from 'next/server'
import { OverviewPage } from '../../components/overview/overview-page.tsx'
import { firstAnswers } from '../../server/contract/first-answers.ts'

export const metadata: Metadata = { title: 'Overview' }

/** The landing page, rendered per request. The HTML contains the initial data if the service can read it in time. */
export default async function Page() {
  await connection()
  return <OverviewPage first={firstAnswers().getStore() ?? null} />
}
