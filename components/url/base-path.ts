/**
 * The prefix of all paths of the service (REWARDOPS_BASE_PATH); empty: none. Links and Next's router add it themselves.
 * Only addresses that the browser gets without them need it: those of requests, images, downloads and full page loads.
 */
export const BASE_PATH = process.env.PAGES_BASE_PATH ?? ''
