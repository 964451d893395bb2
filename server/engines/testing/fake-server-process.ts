import { answer, FakeServer, scoreBody } from './fake-server.ts'

/**
 * A fake vLLM server in a separate process, for tests that kill it. It sends its URL to its parent process, answers
 * after `FAKE_DELAY_MS`, and ends with its parent.
 */
const delayMs = Number(process.env.FAKE_DELAY_MS ?? 0)
const respond = answer(200, scoreBody('vllm', '0.5'), { 'content-type': 'application/json' })
const server = await FakeServer.start((call, response) => {
  setTimeout(() => respond(call, response), delayMs)
})
process.send?.(server.url)
process.on('disconnect', () => process.exit(0))
