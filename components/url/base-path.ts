/**
 * The prefix of all paths of the service (REWARDOPS_BASE_PATH), or empty. Links and the router of Next add it. The
 * code adds it to other URLs: those of requests, images, downloads and full page loads.
 */
export const BASE_PATH = process.env.PAGES_BASE_PATH ?? ''
