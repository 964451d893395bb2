/** The 97.5 % point of the normal distribution: a 95 % interval reaches this many standard errors to each side. */
export const Z_95 = 1.959964
