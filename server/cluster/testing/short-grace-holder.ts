import { type LeasedResource, LeaseHolder } from '../lease-holder.ts'

/** Grace period of the holder's shares, ms. With the grace period of the service, tests would wait for 30 s. */
const GRACE_MS = 500

export class ShortGraceHolder extends LeaseHolder {
  override track(resource: LeasedResource): void {
    super.track({ ...resource, graceMs: GRACE_MS })
  }
}
