import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Refusal, type Problem } from '../api'
import { ago, duration, localTime, utcTime } from '../format'
import type { Loaded } from '../load'

// Page is the frame of each page. It moves the focus to the title, so that a screen reader
// says which page has opened.
export function Page({ title, lead, actions, children }: {
  title: string
  lead?: ComponentChildren
  actions?: ComponentChildren
  children: ComponentChildren
}) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Stint`
    if (document.activeElement === document.body) heading.current?.focus()
  }, [title])
  return (
    <>
      <header class="page-head">
        <div>
          <h1 ref={heading} tabIndex={-1}>{title}</h1>
          {lead && <p class="lead">{lead}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  )
}

// toTitle moves the focus to the title of the page, after the control that had it is gone.
export function toTitle(): void {
  document.querySelector<HTMLElement>('h1')?.focus()
}

// useHeading moves the focus to a heading that appears, so that a screen reader reads on from it.
export function useHeading(focus = true) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => { if (focus) heading.current?.focus() }, [])
  return { ref: heading, tabIndex: -1 }
}

// Panel is a part of a page. With focus it takes the focus when it appears.
export function Panel({ title, note, actions, focus = false, children }: {
  title: string
  focus?: boolean
  note?: ComponentChildren
  actions?: ComponentChildren
  children: ComponentChildren
}) {
  const heading = useHeading(focus)
  return (
    <section class="panel" aria-label={title}>
      <div class="panel-head">
        <h2 {...heading}>{title}</h2>
        {note && <span class="note">{note}</span>}
        {actions && <div class="actions">{actions}</div>}
      </div>
      {children}
    </section>
  )
}

export function Time({ at, relative = false }: { at: string | undefined; relative?: boolean }) {
  if (!at) return <span class="quiet">–</span>
  const when = new Date(at)
  if (Number.isNaN(when.getTime())) return <span>{at}</span>
  const hover = relative ? `${localTime(when)}, ${utcTime(when)}` : utcTime(when)
  return <time dateTime={at} title={hover}>{relative ? ago(when) : localTime(when)}</time>
}

// mostShown is the number of characters of a text that others wrote that a page shows at first.
const mostShown = 200

// Long shows the beginning of a text that may be long, such as a reason, and the rest on demand: one
// long text would move all others off the screen.
export function Long({ text }: { text: string }) {
  const [whole, setWhole] = useState(false)
  if (text.length <= mostShown) return <>{text}</>
  return <>{whole ? text : `${text.slice(0, mostShown)}…`} <button type="button" class="link" aria-expanded={whole} onClick={() => setWhole(!whole)}>{whole ? 'Show less' : `Show all ${text.length} characters`}</button></>
}

export function Badge({ kind, children }: { kind: 'good' | 'bad' | 'warn' | 'plain'; children: ComponentChildren }) {
  return <span class={`badge ${kind}`}>{children}</span>
}

// Tile shows one number.
export function Tile({ label, value, note, kind = '' }: { label: string; value: string; note?: string; kind?: string }) {
  return <div class={`tile ${kind}`}><span class="label">{label}</span><strong>{value}</strong>{note && <span class="quiet">{note}</span>}</div>
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>
}

// Failure says what was not done, and why.
export function Failure({ what, error, retry }: { what: string; error: Error; retry?: () => void }) {
  if (error instanceof Refusal && error.unknown) what = 'It is not known whether this was done'
  const problems = error instanceof Refusal ? error.problems : []
  return (
    <div class="box bad" role="alert">
      <p><strong>{what}.</strong> {sentence(error.message)}</p>
      <Problems list={problems} />
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  )
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?)]$/.test(first) ? first : `${first}.`
}

// Problems lists mistakes. With show, each line number is a button that shows the line.
export function Problems({ list, warnings = false, show }: { list: Problem[] | undefined; warnings?: boolean; show?: (p: Problem) => void }) {
  if (!list?.length) return null
  return (
    <ul class={warnings ? 'problems warn' : 'problems'}>
      {list.map((p, i) => (
        <li key={i}>
          {p.line && (show ? <button type="button" class="link place" onClick={() => show(p)}>{placeOf(p)}</button> : <span class="place">{placeOf(p)}</span>)}
          {' '}{p.what}{p.mend && <span class="quiet"> ({p.mend})</span>}
        </li>
      ))}
    </ul>
  )
}

function placeOf(p: Problem): string {
  return `${p.file === 'body' ? '' : `${p.file}, `}line ${p.line}${p.column ? `, column ${p.column}` : ''}`
}

// Await shows data once it is there, and keeps it while it is loaded anew. It also keeps a failure
// until the next result, so that a screen reader says it once.
export function Await<T>({ of, what, children }: { of: Loaded<T>; what: string; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.error && <Failure what={what} error={of.error} retry={of.reload} />}
      {of.data === undefined && !of.error && <Loading />}
      {of.data !== undefined && children(of.data)}
    </>
  )
}

export function Loading() {
  return <p class="loading" role="status">Loading…</p>
}

// Working says what takes long, and for how long it has.
export function Working({ what }: { what: string }) {
  const [seconds, count] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => count((n) => n + 1), 1000)
    return () => clearInterval(timer)
  }, [])
  return (
    <div class="working">
      <progress aria-label={what} />
      <span role="status">{what}…</span> {seconds > 1 && <span role="timer" aria-live="off">{duration(1000 * seconds)}</span>}
    </div>
  )
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span class="label">{label}</span>
      {children}
      {hint && <span class="hint">{hint}</span>}
    </label>
  )
}

// Copy puts text on the clipboard and says so.
export function Copy({ text, label = 'Copy' }: { text: () => string; label?: string }) {
  const [said, say] = useState('')
  const copy = async () => {
    try {
      await toClipboard(text())
      say('Copied')
    } catch {
      say('The browser refused the clipboard')
    }
    setTimeout(() => say(''), 2000)
  }
  return <button type="button" class="quiet" onClick={copy}><span aria-live="polite">{said || label}</span></button>
}

// toClipboard copies a text. Browsers have navigator.clipboard only for pages over HTTPS and on this
// computer; the older command works for the others.
async function toClipboard(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const copy = (e: ClipboardEvent) => {
    e.preventDefault()
    e.clipboardData?.setData('text/plain', text)
  }
  document.addEventListener('copy', copy)
  try {
    if (!document.execCommand('copy')) throw new Error('refused')
  } finally {
    document.removeEventListener('copy', copy)
  }
}

// Save offers the text of a promise as a file.
export function Save({ label, name, type, text }: { label: string; name: string; type: string; text: () => Promise<string> }) {
  const [error, setError] = useState<Error>()
  const save = () => {
    setError(undefined)
    text().then((data) => {
      const link = document.createElement('a')
      link.href = URL.createObjectURL(new Blob([data], { type }))
      link.download = name
      link.click()
      setTimeout(() => URL.revokeObjectURL(link.href), 1000)
    }, setError)
  }
  return <><button type="button" onClick={save}>{label}</button>{error && <Failure what="Nothing was saved" error={error} />}</>
}

// Choice is a group of buttons of which one is pressed.
export function Choice<T extends string>({ label, of, value, choose }: {
  label: string
  of: readonly (readonly [T, string])[]
  value: T
  choose: (value: T) => void
}) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {of.map(([name, text]) => (
        <button key={name} type="button" aria-pressed={value === name} onClick={() => choose(name)}>{text}</button>
      ))}
    </div>
  )
}
