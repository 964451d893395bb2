import type { Metadata } from 'next'
import { connection } from 'next/server'
import { OverviewPage } from '../../components/overview/overview-page.tsx'
import { firstAnswers } from '../../server/wire/first-answers.ts'

export const metadata: Metadata = { title: 'Overview' }

/** Where one comes in: rendered for each request, with its data where the listener has read them. */
export default async function Page() {
  await connection()
  return <OverviewPage first={firstAnswers().getStore() ?? null} />
}
