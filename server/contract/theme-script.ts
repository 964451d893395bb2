/** The name under which the browser stores the theme. */
export const THEME_KEY = 'rewardops-theme'

/**
 * Runs before the first paint, to prevent a white flash in dark mode. The pages' Content-Security-Policy allows the
 * script by its digest, so the script must not vary.
 */
export const THEME_SCRIPT = `try{var t=localStorage.getItem('${THEME_KEY}');if(t==='light'||t==='dark')document.documentElement.dataset.theme=t}catch(e){}`
