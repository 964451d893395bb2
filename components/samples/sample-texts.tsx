'use client'

import type { SampleDetailDto } from '../../server/contract/pages.ts'
import { JsonValue } from '../rollouts/raw-text.tsx'
import { PanelPart } from '../ui/docked-panel.tsx'

/** A sample as the browser receives it: JSON omits undefined fields. */
export type ReadSample = Omit<SampleDetailDto, 'groundTruth'> & { groundTruth?: unknown }

export function GroundTruthPart({ sample }: { sample: Pick<ReadSample, 'groundTruth'> }) {
  return (
    <PanelPart title="Ground truth">
      {sample.groundTruth === null || sample.groundTruth === undefined ? (
        <p className="text-ink-3">None.</p>
      ) : (
        <JsonValue value={sample.groundTruth} />
      )}
    </PanelPart>
  )
}
