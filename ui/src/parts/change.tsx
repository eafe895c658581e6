// The steps of every change of the rules: its effects first, then a reason, then the change.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Refusal, type Answer, type Outcome } from '../api'
import { share } from '../format'
import { identity, may } from '../session'
import { useStore } from '../store'
import { Failure, Field, Working } from './basic'
import { Effects, ImpactView } from './effects'

export interface Step {
  reason?: string
  dry_run?: boolean
  force?: boolean
  // canary is the share of the callers that the change is for. Without it the change is for all.
  canary?: string
  soak?: string
  abort_above?: string
  signal?: AbortSignal
}

// Change asks for the effects at once, and makes the change when the user confirms it.
// conflict receives a 412; without it the refusal is shown.
export function Change({ whole = false, canary = false, send, verb, reason, setReason, made, done, cancel, conflict, children }: {
  whole?: boolean // the change replaces all rules
  canary?: boolean // a share of the callers can try the change
  send: (step: Step) => Promise<Answer<Outcome>>
  verb: string
  reason: string
  setReason: (reason: string) => void
  made?: () => void // the change is made, whatever page is open then
  done: (outcome: Outcome) => void // it is made, and this page is still open
  cancel: () => void
  conflict?: (refusal: Refusal) => void
  children?: ComponentChildren
}) {
  const who = useStore(identity)
  const [effects, setEffects] = useState<Outcome>()
  const [refusal, setRefusal] = useState<Error>()
  const [force, setForce] = useState(false)
  const [busy, setBusy] = useState(true)
  const [trial, setTrial] = useState(allCallers)
  const [publishing, setPublishing] = useState(false)
  const publication = useRef<AbortController>(null)
  const open = useRef(true)
  useEffect(() => () => { open.current = false }, [])
  // checked is what the effects are of. A trial can be changed afterwards: it is checked again then.
  const [checked, setChecked] = useState('')
  const tried = stepOf(trial)
  const wanted = JSON.stringify(tried)

  const refused = (error: Error) => {
    setBusy(false)
    if (error instanceof Refusal && error.status === 412 && conflict) conflict(error)
    else setRefusal(error)
  }
  useEffect(() => {
    const abort = new AbortController()
    setBusy(true)
    setRefusal(undefined)
    setPublishing(false)
    const timer = setTimeout(() => {
      send({ dry_run: true, signal: abort.signal, ...tried }).then(
        ({ data }) => { setEffects(data); setChecked(wanted); setBusy(false) },
        (error: Error) => abort.signal.aborted || refused(error),
      )
    }, effects ? pause : 0)
    return () => { clearTimeout(timer); abort.abort() }
  }, [wanted])
  const confirm = (e: Event) => {
    e.preventDefault()
    setBusy(true)
    setRefusal(undefined)
    setPublishing(true)
    const abort = new AbortController()
    publication.current = abort
    send({ reason, force: force || undefined, signal: abort.signal, ...tried } as Step).then(
      ({ data }) => { made?.(); if (open.current) done(data) },
      (error: Error) => refused(abort.signal.aborted ? cancelled() : error),
    )
  }
  const stop = busy && publishing ? () => publication.current?.abort() : cancel

  const above = (whole && effects?.impact?.above_limit) || (refusal instanceof Refusal && refusal.code === 'IMPACT')
  return (
    <form class="change" onSubmit={confirm}>
      {busy && !effects && <Working what="The server works out what the change does" />}
      {effects && !effects.changed && <p class="box">The rules say this already: nothing would change.</p>}
      {effects?.changed && <Effects of={effects} whole={whole} />}
      {refusal && <Failure what={publishing ? 'The change was not made' : 'The effects are not known, and nothing was changed'} error={refusal} />}
      {refusal instanceof Refusal && refusal.impact && !effects && <ImpactView of={refusal.impact} whole={whole} />}
      {effects?.changed && (
        <>
          <Field label="Reason" hint="In the history and in the audit log.">
            <input name="reason" value={reason} required maxLength={500} autocomplete="off" onInput={(e) => setReason(e.currentTarget.value)} />
          </Field>
          {canary && may('admin', who) && who?.features.includes('canary') && <TrialFields of={trial} set={setTrial} />}
          {trial.on && effects.canary && <Plan of={effects.canary} />}
          {above && may('admin', who) && (
            <label class="check"><input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} /> Publish although too much would be denied</label>
          )}
        </>
      )}
      {busy && publishing && <Working what="The server makes the change" />}
      <div class="actions">
        {effects?.changed && <button type="submit" class="primary" disabled={busy || checked !== wanted}>{busy ? 'Wait…' : trial.on ? 'Start the canary' : verb}</button>}
        {children}
        <button type="button" onClick={stop}>{busy && (publishing || !effects) ? 'Cancel' : effects?.changed ? 'Back' : 'Close'}</button>
      </div>
    </form>
  )
}

// cancelled returns the error of a change whose answer nobody has waited for.
function cancelled(): Refusal {
  return new Refusal(0, { code: 'BUSY', message: 'you have cancelled the request: look at the versions before you try again', unknown: true })
}

// Trial is how a share of the callers tries a change. The numbers are percentages.
interface Trial {
  on: boolean
  share: string
  soak: string
  above: string
}

// pause is the time after a letter, in milliseconds, after which a trial is checked.
const pause = 400

const allCallers: Trial = { on: false, share: '5', soak: '', above: '5' }

function stepOf({ on, share: part, soak, above }: Trial): Step {
  return on ? { canary: `${part}%`, abort_above: `${above}%`, ...(soak ? { soak } : {}) } : {}
}

function TrialFields({ of, set }: { of: Trial; set: (trial: Trial) => void }) {
  const field = (name: 'share' | 'soak' | 'above') => ({ name, value: of[name], onInput: (e: Event) => set({ ...of, [name]: (e.currentTarget as HTMLInputElement).value.trim() }) })
  return (
    <fieldset>
      <legend>Who gets the change</legend>
      <label class="check"><input type="checkbox" checked={of.on} onChange={(e) => set({ ...of, on: e.currentTarget.checked })} /> Try it on some callers first (a canary)</label>
      {of.on && (
        <div class="row">
          <Field label="Share of the callers, in %" hint="0.01 to 99. The others keep the rules in force."><input {...field('share')} type="number" min="0.01" max="99" step="any" required /></Field>
          <Field label="Promote by itself after" hint="Such as 10m or 24h. Empty: an admin promotes it."><input {...field('soak')} autocomplete="off" spellcheck={false} /></Field>
          <Field label="Abort above, in %" hint="It is aborted when the new rules deny this much more of the requests."><input {...field('above')} type="number" min="0" max="100" step="any" required /></Field>
        </div>
      )}
    </fieldset>
  )
}

// Plan says what a canary will do.
function Plan({ of }: { of: NonNullable<Outcome['canary']> }) {
  return (
    <div class="box">
      <p>
        {share(of.share)} of the callers, told apart by {of.by === 'ip' ? 'address' : 'API key or address'}, get these rules. The others keep version {of.control}.{' '}
        {of.soak ? `After ${of.soak} the rules are for all callers` : 'An admin decides when the rules are for all callers'}, unless they deny {share(of.abort_above)} of the requests more than before. No other change of the rules can be published until then.
      </p>
      {!!of.rules_kept?.length && <p><strong>Not tried:</strong> the limits of {of.rules_kept.join(', ')}. Callers of both sides share their counts, so they stay as they are until the promotion.</p>}
    </div>
  )
}
