import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Failure, Field, toTitle, useHeading } from './basic'

// Confirm says in words what will happen, asks for a reason, and acts when the user confirms.
export function Confirm({ title, verb, danger = false, failed, act, cancel, children }: {
  title: string
  verb: string
  danger?: boolean
  failed: string // what was not done after a refusal
  act: (reason: string) => Promise<void>
  cancel: () => void
  children: ComponentChildren
}) {
  const [reason, setReason] = useState('')
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const heading = useHeading()
  const submit = (e: Event) => {
    e.preventDefault()
    setBusy(true)
    setError(undefined)
    act(reason).then(toTitle, (refused: Error) => { setError(refused); setBusy(false) })
  }
  return (
    <form class="box warn" aria-label={title} onSubmit={submit} autocomplete="off">
      <h2 class="minor first" {...heading}>{title}</h2>
      {children}
      <Field label="Reason" hint="In the audit log."><input name="reason" class="long" required maxLength={500} value={reason} onInput={(e) => setReason(e.currentTarget.value)} /></Field>
      {error && <Failure what={failed} error={error} />}
      <div class="actions">
        <button type="submit" class={danger ? 'danger' : 'primary'} disabled={busy}>{verb}</button>
        <button type="button" onClick={() => { cancel(); toTitle() }}>Back</button>
      </div>
    </form>
  )
}
