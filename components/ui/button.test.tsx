import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test, vi } from 'vitest'
import { Button } from './button.tsx'

test('a busy button keeps the focus and ignores clicks', () => {
  const onClick = vi.fn()
  const preventDefault = vi.fn()
  const busy = Button({ type: 'submit', busy: true, onClick, children: 'Save' })
  busy.props.onClick({ preventDefault })
  expect(onClick).not.toHaveBeenCalled()
  expect(preventDefault).toHaveBeenCalled()
  const html = renderToStaticMarkup(busy)
  expect(html).toMatch(/aria-disabled="true".*aria-busy="true"/)
  expect(html).not.toMatch(/ disabled=/)
})

test('an idle button is pressed, and a button without an action is disabled', () => {
  const onClick = vi.fn()
  Button({ onClick }).props.onClick({})
  expect(onClick).toHaveBeenCalled()
  const html = renderToStaticMarkup(<Button disabled>Save</Button>)
  expect(html).toContain(' disabled=""')
  expect(html).not.toContain('aria-disabled')
})
