import { writeSampleFilter } from '../../server/contract/sample-filter.ts'

/** The address that shows two samples beside each other: until there is such a page, the first one with its group. */
export function samplePairHref(
  first: { id: string; batchId: string; uid: string },
  _second: { id: string },
): string {
  const params = writeSampleFilter({ batch: first.batchId, uid: first.uid })
  params.set('sort', 'best')
  params.set('sample', first.id)
  return `/samples?${params}`
}
