import { from as copyFrom } from 'pg-copy-streams'
import type { Client } from './database.ts'

/** Sends blocks of the binary COPY format to `target`, e.g. `sample(batch_id, idx)`, honouring back-pressure. */
export async function copyIn(client: Client, target: string, blocks: Buffer[]): Promise<void> {
  const stream = client.query(copyFrom(`copy ${target} from stdin (format binary)`))
  await new Promise<void>((resolve, reject) => {
    stream.on('error', reject)
    stream.on('finish', resolve)
    let next = 0
    const write = () => {
      while (next < blocks.length) {
        if (!stream.write(blocks[next++])) {
          stream.once('drain', write)
          return
        }
      }
      stream.end()
    }
    write()
  })
}
