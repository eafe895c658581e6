// The steps of every change of the rules: its effects first, then a reason, then the change.
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Refusal, type Answer, type Outcome } from '../api'
import { identity, may } from '../session'
import { useStore } from '../store'
import { Failure, Field, Loading } from './basic'
import { Effects, ImpactView } from './effects'

export interface Step {
  reason?: string
  dry_run?: boolean
  force?: boolean
  signal?: AbortSignal
}

// Change asks for the effects at once, and makes the change when the user confirms it.
// conflict receives a 412; without it the refusal is shown.
export function Change({ whole = false, send, verb, reason, setReason, done, cancel, conflict, children }: {
  whole?: boolean // the change replaces all rules
  send: (step: Step) => Promise<Answer<Outcome>>
  verb: string
  reason: string
  setReason: (reason: string) => void
  done: (outcome: Outcome) => void
  cancel: () => void
  conflict?: (refusal: Refusal) => void
  children?: ComponentChildren
}) {
  const who = useStore(identity)
  const [effects, setEffects] = useState<Outcome>()
  const [refusal, setRefusal] = useState<Error>()
  const [force, setForce] = useState(false)
  const [busy, setBusy] = useState(true)

  const refused = (error: Error) => {
    setBusy(false)
    if (error instanceof Refusal && error.status === 412 && conflict) conflict(error)
    else setRefusal(error)
  }
  useEffect(() => {
    const abort = new AbortController()
    send({ dry_run: true, signal: abort.signal }).then(
      ({ data }) => { setEffects(data); setBusy(false) },
      (error: Error) => abort.signal.aborted || refused(error),
    )
    return () => abort.abort()
  }, [])
  const confirm = (e: Event) => {
    e.preventDefault()
    setBusy(true)
    setRefusal(undefined)
    send({ reason, force: force || undefined } as Step).then(({ data }) => done(data), refused)
  }

  const above = (whole && effects?.impact?.above_limit) || (refusal instanceof Refusal && refusal.code === 'IMPACT')
  return (
    <form class="change" onSubmit={confirm}>
      {busy && !effects && <Loading />}
      {effects && !effects.changed && <p class="box">The rules say this already: nothing would change.</p>}
      {effects?.changed && <Effects of={effects} whole={whole} />}
      {refusal && <Failure what={effects ? 'The change was not made' : 'The effects are not known, and nothing was changed'} error={refusal} />}
      {refusal instanceof Refusal && refusal.impact && !effects && <ImpactView of={refusal.impact} whole={whole} />}
      {effects?.changed && (
        <>
          <Field label="Reason" hint="In the history and in the audit log.">
            <input name="reason" value={reason} required maxLength={500} autocomplete="off" onInput={(e) => setReason(e.currentTarget.value)} />
          </Field>
          {above && may('admin', who) && (
            <label class="check"><input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} /> Publish although too much would be denied</label>
          )}
        </>
      )}
      <div class="actions">
        {effects?.changed && <button type="submit" class="primary" disabled={busy}>{busy ? 'Publishing…' : verb}</button>}
        {children}
        <button type="button" onClick={cancel}>{effects?.changed ? 'Back' : 'Close'}</button>
      </div>
    </form>
  )
}
