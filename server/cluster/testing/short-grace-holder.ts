import { type LeasedResource, LeaseHolder } from '../lease-holder.ts'

/** Grace period of all its shares, ms, so that tests need not wait for 30 s. */
const GRACE_MS = 500

export class ShortGraceHolder extends LeaseHolder {
  override track(resource: LeasedResource): void {
    super.track({ ...resource, graceMs: GRACE_MS })
  }
}
