// The client of the admin API. Its types are generated from the OpenAPI document, so that a
// call which the document does not describe fails the build.
import type { components, paths } from './api.gen'
import { authorization, signIn } from './session'

export type Schemas = components['schemas']
export type Problem = Schemas['Problem']
export type Impact = Schemas['Impact']
export type Diff = Schemas['Diff']
export type Outcome = Schemas['Outcome']

type Method = 'get' | 'put' | 'post' | 'delete'
type MethodOf<P extends keyof paths> = {
  [M in Method]: paths[P][M] extends { responses: unknown } ? M : never
}[Method]

type QueryOf<T> = T extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never
type PathOf<T> = T extends { parameters: { path: infer Q } } ? Q : undefined
type BodyOf<T> = T extends { requestBody?: { content: infer C } }
  ? C extends { 'application/json': infer B } ? B : C extends { 'multipart/form-data': unknown } ? FormData : string
  : undefined
type AnswerOf<T> = T extends { responses: { 200: { content: { 'application/json': infer B } } } } ? B : never

export interface Options<T> {
  query?: QueryOf<T>
  path?: PathOf<T>
  body?: BodyOf<T>
  ifMatch?: string
  ifNoneMatch?: string
  reason?: string
  accept?: string
  lastEventID?: string
  signal?: AbortSignal | undefined
}

export interface Answer<B> {
  data: B
  etag: string
}

// Refusal is an answer that is not a success, or no answer.
export class Refusal extends Error {
  code: string
  problems: Problem[]
  diff: Diff | undefined
  impact: Impact | undefined
  // unknown means that the request was a change, which may have been made nevertheless.
  unknown: boolean

  constructor(public status: number, body: Partial<Schemas['Error']['error']>) {
    super(body.message ?? `the server answered with status ${status}`)
    this.code = body.code ?? 'UNKNOWN'
    this.problems = body.problems ?? []
    this.diff = body.diff
    this.impact = body.impact
    this.unknown = body.unknown ?? false
  }
}

// The pages are at /ui/ below any prefix, and the API is beside them.
const base = new URL('../', document.baseURI)

// call makes a request of the API and returns the JSON of its answer.
export async function call<P extends keyof paths, M extends MethodOf<P>>(
  method: M, path: P, options: Options<paths[P][M]> = {},
): Promise<Answer<AnswerOf<paths[P][M]>>> {
  const response = await send(method, path, { accept: 'application/json', ...options } as Options<unknown>)
  return { data: await response.json(), etag: response.headers.get('ETag') ?? '' }
}

// callText makes a request of the API and returns the text of its answer.
export async function callText<P extends keyof paths, M extends MethodOf<P>>(
  method: M, path: P, options: Options<paths[P][M]> = {},
): Promise<Answer<string>> {
  const response = await send(method, path, options as Options<unknown>)
  return { data: await response.text(), etag: response.headers.get('ETag') ?? '' }
}

// callStream makes a request of the API whose answer does not end at once.
export function callStream<P extends keyof paths, M extends MethodOf<P>>(
  method: M, path: P, options: Options<paths[P][M]> = {},
): Promise<Response> {
  return send(method, path, options as Options<unknown>)
}

// Upload says how an upload goes on.
export interface Upload {
  sent: (bytes: number, all: number) => void
  received: (text: string) => void // the next part of the answer
  signal: AbortSignal
}

// callUpload sends a form and tells how much of it is sent: fetch cannot tell that.
export function callUpload<P extends keyof paths>(path: P, form: BodyOf<paths[P]['post']> & FormData, upload: Upload): Promise<void> {
  return signedIn(async (token) => {
    const request = await sendForm(path, form, token, upload)
    return { done: undefined, refusal: request.status === 200 ? undefined : new Refusal(request.status, errorIn(request.responseText)) }
  })
}

function sendForm(path: string, form: FormData, token: string, { sent, received, signal }: Upload): Promise<XMLHttpRequest> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    let read = 0
    const take = () => {
      if (request.status !== 200) return
      const fresh = request.responseText.slice(read)
      read += fresh.length
      received(fresh)
    }
    request.open('POST', address(path, {}))
    request.setRequestHeader('Accept', 'text/event-stream')
    if (token) request.setRequestHeader('Authorization', `Bearer ${token}`)
    request.upload.onprogress = (e) => sent(e.loaded, e.total)
    request.onprogress = take
    request.onload = () => {
      take()
      resolve(request)
    }
    request.onerror = () => reject(unanswered(false))
    request.onabort = () => reject(new DOMException('cancelled', 'AbortError'))
    request.send(form)
    if (signal.aborted) request.abort()
    signal.addEventListener('abort', () => request.abort(), { once: true })
  })
}

// send makes a request of the API.
function send(method: string, path: string, options: Options<unknown>): Promise<Response> {
  return signedIn(async (token) => {
    const response = await request(method, path, options, token)
    return { done: response, refusal: response.ok ? undefined : new Refusal(response.status, errorIn(await response.text())) }
  })
}

// signedIn repeats a request after the user has signed in.
async function signedIn<T>(make: (token: string) => Promise<{ done: T; refusal: Refusal | undefined }>): Promise<T> {
  for (;;) {
    const used = authorization()
    const { done, refusal } = await make(used)
    if (!refusal) return done
    if (refusal.status !== 401) throw refusal
    await signIn(used, refusal.message)
  }
}

async function request(method: string, path: string, options: Options<unknown>, token: string): Promise<Response> {
  const headers = new Headers()
  if (token) headers.set('Authorization', `Bearer ${token}`)
  if (options.accept) headers.set('Accept', options.accept)
  if (options.lastEventID) headers.set('Last-Event-ID', options.lastEventID)
  if (options.ifMatch) headers.set('If-Match', options.ifMatch)
  if (options.ifNoneMatch) headers.set('If-None-Match', options.ifNoneMatch)
  if (options.reason) headers.set('X-Stint-Comment', asBytes(options.reason))
  try {
    return await fetch(address(path, options), {
      method: method.toUpperCase(), headers, body: bodyOf(options.body), signal: options.signal ?? null,
      cache: 'no-store', credentials: 'omit', redirect: 'error', referrerPolicy: 'no-referrer',
    })
  } catch (error) {
    if (options.signal?.aborted) throw error
    throw unanswered(changes(method, path, options))
  }
}

// unanswered returns the error of a request without an answer. A change may have been made.
function unanswered(change: boolean): Refusal {
  const refusal = new Refusal(0, { code: 'BUSY', message: `the server did not answer${change ? ': check before you try again' : ''}` })
  refusal.unknown = change
  return refusal
}

// reads are the endpoints that change nothing although their method is POST.
const reads: string[] = ['/rules/validate', '/v1/peek', '/v1/why', '/v1/explain', '/v1/replay'] satisfies (keyof paths)[]

function changes(method: string, path: string, { query }: Options<unknown>): boolean {
  return method !== 'get' && !reads.includes(path) && !(query as { dry_run?: boolean } | undefined)?.dry_run
}

function address(path: string, options: Options<unknown>): URL {
  const parts = (options.path ?? {}) as Record<string, string | number>
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parts[name] ?? ''))
  const url = new URL(filled.slice(1), base)
  for (const [name, value] of Object.entries((options.query ?? {}) as Record<string, unknown>)) {
    if (value !== undefined && value !== '') url.searchParams.set(name, String(value))
  }
  return url
}

function bodyOf(body: unknown): BodyInit | null {
  if (body === undefined) return null
  return typeof body === 'string' || body instanceof FormData ? body : JSON.stringify(body)
}

// asBytes returns text as one character for each byte of its UTF-8, which is the only form
// in which fetch sends a header that has other characters than those of Latin-1.
function asBytes(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join('')
}

function errorIn(answer: string): Partial<Schemas['Error']['error']> {
  try {
    return (JSON.parse(answer) as Schemas['Error']).error ?? {}
  } catch {
    return {}
  }
}
