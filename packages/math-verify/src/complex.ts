/** A complex number in doubles. */
export interface Complex {
  readonly re: number
  readonly im: number
}

export function real(re: number): Complex {
  return { re, im: 0 }
}

export function add(a: Complex, b: Complex): Complex {
  return { re: a.re + b.re, im: a.im + b.im }
}

export function subtract(a: Complex, b: Complex): Complex {
  return { re: a.re - b.re, im: a.im - b.im }
}

export function multiply(a: Complex, b: Complex): Complex {
  if (a.im === 0 && b.im === 0) return real(a.re * b.re)
  return { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
}

export function divide(a: Complex, b: Complex): Complex {
  if (a.im === 0 && b.im === 0) return real(a.re / b.re)
  const size = b.re * b.re + b.im * b.im
  return {
    re: (a.re * b.re + a.im * b.im) / size,
    im: (a.im * b.re - a.re * b.im) / size,
  }
}

export function size(a: Complex): number {
  return Math.hypot(a.re, a.im)
}

export function exp(a: Complex): Complex {
  const scale = Math.exp(a.re)
  return a.im === 0 ? real(scale) : { re: scale * Math.cos(a.im), im: scale * Math.sin(a.im) }
}

/** The principal value. */
export function log(a: Complex): Complex {
  return { re: Math.log(size(a)), im: Math.atan2(a.im, a.re) }
}

/** The principal value: (-8)^(1/3) is not -2. */
export function power(base: Complex, exponent: Complex): Complex {
  if (exponent.im === 0) {
    if (exponent.re === 0.5 && base.im === 0) {
      return base.re >= 0 ? real(Math.sqrt(base.re)) : { re: 0, im: Math.sqrt(-base.re) }
    }
    if (base.im === 0 && (base.re >= 0 || Number.isInteger(exponent.re))) {
      return real(base.re ** exponent.re)
    }
    if (Number.isInteger(exponent.re) && Math.abs(exponent.re) <= 64) {
      return wholePower(base, exponent.re)
    }
  }
  if (base.re === 0 && base.im === 0) return real(exponent.re > 0 ? 0 : Number.NaN)
  return exp(multiply(exponent, log(base)))
}

function wholePower(base: Complex, exponent: number): Complex {
  let result = real(1)
  for (let times = 0; times < Math.abs(exponent); times++) result = multiply(result, base)
  return exponent < 0 ? divide(real(1), result) : result
}

export function sin(a: Complex): Complex {
  if (a.im === 0) return real(Math.sin(a.re))
  return {
    re: Math.sin(a.re) * Math.cosh(a.im),
    im: Math.cos(a.re) * Math.sinh(a.im),
  }
}

export function cos(a: Complex): Complex {
  if (a.im === 0) return real(Math.cos(a.re))
  return {
    re: Math.cos(a.re) * Math.cosh(a.im),
    im: -Math.sin(a.re) * Math.sinh(a.im),
  }
}

const lanczos = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
  -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
  1.5056327351493116e-7,
]

/** Γ of a real number, to about 15 digits (Lanczos, g = 7). */
export function gamma(x: number): number {
  if (x < 0.5) return Math.PI / (Math.sin(Math.PI * x) * gamma(1 - x))
  const shifted = x - 1
  let sum = lanczos[0]!
  for (let at = 1; at < lanczos.length; at++) sum += lanczos[at]! / (shifted + at)
  const t = shifted + 7.5
  return Math.sqrt(2 * Math.PI) * t ** (shifted + 0.5) * Math.exp(-t) * sum
}
