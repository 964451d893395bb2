/**
 * The prefix of all paths of the service (REWARDOPS_BASE_PATH), or empty. Next adds it to links and to paths of its
 * router. Code must add it to all other URLs: requests, images, downloads and full page loads.
 */
export const BASE_PATH = process.env.PAGES_BASE_PATH ?? ''
