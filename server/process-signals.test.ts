import { expect, test, vi } from 'vitest'
import { processLives } from './process-signals.ts'

test('a process of another user exists, although it may not be signalled', () => {
  const kill = vi.spyOn(process, 'kill')
  const failing = (code: string) => {
    kill.mockImplementationOnce(() => {
      throw Object.assign(new Error(code), { code })
    })
    return processLives(1)
  }
  try {
    expect(failing('EPERM')).toBe(true)
    expect(failing('ESRCH')).toBe(false)
    expect(processLives(process.pid)).toBe(true)
    expect(kill.mock.calls).toEqual([
      [1, 0],
      [1, 0],
      [process.pid, 0],
    ])
  } finally {
    kill.mockRestore()
  }
})
