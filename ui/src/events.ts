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
  const parts = new EventParts()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    yield parts.add(decoder.decode(value, { stream: true }))
  }
}

// EventParts puts the parts of a stream of events together.
export class EventParts {
  private rest = ''

  // add returns the events that a part ends.
  add(part: string): Event[] {
    const blocks = (this.rest + part).split('\n\n')
    this.rest = blocks.pop() ?? ''
    return blocks.map(parse)
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
