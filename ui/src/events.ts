// Server-sent events, read from an answer of fetch, which can send a token.
export interface Event {
  id: string
  name: string
  data: string
}

// events yields the events of each part of a stream of server-sent events.
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Event[]> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    if (blocks.length > 0) yield blocks.map(parse)
  }
}

function parse(block: string): Event {
  const event = { id: '', name: 'message', data: '' }
  for (const line of block.split('\n')) {
    const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? []
    if (field === 'id') event.id = value ?? ''
    if (field === 'event') event.name = value ?? ''
    if (field === 'data') event.data += value ?? ''
  }
  return event
}
