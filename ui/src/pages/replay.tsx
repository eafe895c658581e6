// A replay of recorded traffic by the rules in force and by a draft. It touches no live key.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { call, callUpload, type Schemas } from '../api'
import { forgetDraft, readDraft, type Draft, type File as RuleFile } from '../draft'
import { YamlEditor } from '../editor/editor'
import { EventParts } from '../events'
import { bytes, count, duration, many, share } from '../format'
import { useLoad } from '../load'
import { Await, Choice, Empty, Failure, Field, Page, Panel, Save, Tile } from '../parts/basic'
import { Chart } from '../parts/chart'
import { ImpactView } from '../parts/effects'
import { useKept } from '../parts/kept'
import { Table } from '../parts/table'
import { amend, href, type Route } from '../router'
import { identity, may } from '../session'
import { useStore } from '../store'
import { setTarget } from './edit'

type Progress = Schemas['ReplayProgress']
type Result = Schemas['ReplayReport']
type Report = Schemas['Replay']
type Comparison = Schemas['ReplayComparison']

interface Run {
  state: 'idle' | 'runs' | 'cancelled' | 'ended'
  request?: Request
  sent?: { bytes: number; all: number; rate: number } // rate is in bytes a second
  progress?: Progress
  result?: Result
  error?: Error
}

// Request is what the user has chosen.
interface Request {
  form: FormData
  file: File | undefined
  draft: RuleFile[] | undefined
}

export function Replay({ route }: { route: Route }) {
  const who = useStore(identity)
  const [run, setRun] = useState<Run>({ state: 'idle' })
  const abort = useRef<AbortController>(null)
  useEffect(() => () => abort.current?.abort(), [])
  const start = (request: Request) => {
    abort.current = new AbortController()
    const { signal } = abort.current
    setRun({ state: 'runs', request })
    replay(request.form, signal, (part) => setRun((old) => ({ ...old, ...part }))).then(
      () => setRun((old) => ({ ...old, state: 'ended', ...(old.result ? {} : { error: new Error('the server ended the replay without a report') }) })),
      (error: Error) => setRun(signal.aborted ? { state: 'cancelled' } : { state: 'ended', error }),
    )
  }
  if (!may('operator', who)) return <Page title="Replay"><Empty>A replay needs the role operator: it takes memory and processors of the node.</Empty></Page>
  return (
    <Page title="Replay" lead="What the rules in force, and a draft, would have done to recorded traffic. A replay has counters of its own and touches no live key.">
      <Setup route={route} busy={run.state === 'runs'} start={start} />
      {run.state === 'runs' && <Running of={run} cancel={() => abort.current?.abort()} />}
      {run.state === 'cancelled' && <p class="box" role="status">The replay was cancelled and has no report. Nothing was changed.</p>}
      {run.error && <Failure what="The replay has no report" error={run.error} />}
      {run.result && <Outcome of={run.result} draft={run.request?.draft} chart={route.query.get('chart') ?? ''} />}
    </Page>
  )
}

async function replay(form: FormData, signal: AbortSignal, tell: (part: Partial<Run>) => void): Promise<void> {
  const began = performance.now()
  const parts = new EventParts()
  await callUpload('/v1/replay', form, {
    signal,
    sent: (sent, all) => tell({ sent: { bytes: sent, all, rate: (1000 * sent) / (performance.now() - began) } }),
    received: (text) => {
      for (const event of parts.add(text)) {
        if (event.name === 'progress') tell({ progress: JSON.parse(event.data) as Progress })
        if (event.name === 'report') tell({ result: JSON.parse(event.data) as Result })
      }
    },
  })
}

// Setup keeps the choices in the address of the page, but for the recording and the draft.
function Setup({ route, busy, start }: { route: Route; busy: boolean; start: (request: Request) => void }) {
  const who = useStore(identity)
  const log = who?.features.includes('decision_log') ?? false
  const source = log && route.query.get('source') === 'decision_log' ? 'decision_log' : 'upload'
  const compared = route.query.get('rules') === 'draft' ? 'draft' : 'alone'
  const [draft, setDraft] = useState<RuleFile[]>([])
  const [discarded, setDiscarded] = useState(0) // counts the drafts that were discarded
  const [range, setRange] = useState({ since: '', until: '' })
  const recording = useRef<HTMLInputElement>(null)
  const [since, until] = [route.query.get('since') ?? '', route.query.get('until') ?? '']
  useEffect(() => setRange({ since, until }), [since, until]) // also of a link that is opened here
  const submit = (e: Event) => {
    e.preventDefault()
    const form = new FormData()
    if (compared === 'draft') form.append('draft', JSON.stringify({ files: draft }))
    for (const name of ['since', 'until'] as const) if (range[name]) form.append(name, range[name])
    const file = source === 'upload' ? recording.current?.files?.[0] : undefined
    if (file) form.append('log', file) // the last part
    else form.append('source', 'decision_log')
    start({ form, file, draft: compared === 'draft' ? draft : undefined })
  }
  const field = (name: 'since' | 'until') => ({
    name, value: range[name], autocomplete: 'off',
    onInput: (e: Event) => setRange({ ...range, [name]: (e.currentTarget as HTMLInputElement).value }),
    onChange: () => amend({ [name]: range[name] }),
  })
  return (
    <Panel title="Traffic and rules">
      <form onSubmit={submit}>
        <div class="row">
          {log && (
            <Field label="Traffic"><select value={source} onChange={(e) => amend({ source: e.currentTarget.value === 'upload' ? undefined : e.currentTarget.value })}>
              <option value="upload">A file of this computer</option>
              <option value="decision_log">The decision log of this node</option>
            </select></Field>
          )}
          {source === 'upload' && <Field label="Recording" hint="A decision log or an access log, also compressed by gzip, of at most 256 MiB."><input ref={recording} type="file" required /></Field>}
          <Field label="Since" hint="Such as 2h, or a time. Empty: all."><input {...field('since')} /></Field>
          <Field label="Until" hint="Such as 1h, or a time."><input {...field('until')} /></Field>
        </div>
        <Choice label="Rules" of={[['alone', 'Rules in force alone'], ['draft', 'Compare with a draft']]} value={compared} choose={(v) => amend({ rules: v === 'draft' ? v : undefined })} />
        {compared === 'draft' && <DraftRules key={discarded} files={draft} change={setDraft} discard={() => { forgetDraft(setTarget.draft); setDraft([]); setDiscarded(discarded + 1) }} />}
        <div class="actions"><button type="submit" class="primary" disabled={busy || (compared === 'draft' && draft.length === 0)}>Start the replay</button></div>
      </form>
    </Panel>
  )
}

// DraftRules shows the draft of the editor of all rules, or the rules in force if there is none. It
// keeps what the user writes as that draft: a reload loses nothing, and the editor can publish it.
function DraftRules({ files, change, discard }: { files: RuleFile[]; change: (files: RuleFile[]) => void; discard: () => void }) {
  const admin = may('admin', useStore(identity))
  const [shown, setShown] = useState('')
  const base = useRef<Draft>(null)
  const start = useLoad(async (signal) => {
    const kept = readDraft(setTarget.draft)
    const { files: inForce, etag } = kept ? { files: kept.base, etag: kept.etag } : await setTarget.read(signal)
    base.current = kept ?? { base: inForce, etag, files: inForce, reason: '', saved: '' }
    const begin = files.length > 0 ? files : base.current.files
    change(begin)
    return begin
  }, [])
  const kept = useKept(setTarget.draft, () => readDraft(setTarget.draft))
  const write = (next: RuleFile[]) => {
    change(next)
    kept.keep({ ...base.current!, files: next })
  }
  return (
    <Await of={start} what="The rules in force were not loaded">
      {(begin) => {
        const file = (files.length > 0 ? files : begin).find((f) => f.name === shown) ?? (files[0] ?? begin[0])
        if (!file) return <Empty>There are no rules to change.</Empty>
        return (
          <>
            {begin.length > 1 && <Choice label="File" of={begin.map((f) => [f.name, f.name] as const)} value={file.name} choose={setShown} />}
            <YamlEditor document={file.name} label={`Draft: ${file.name}`} text={file.text} problems={[]}
              changed={(text) => write((files.length > 0 ? files : begin).map((f) => (f.name === file.name ? { ...f, text } : f)))} />
            {kept.notes}
            <p class="quiet">The draft, which has all rules, is kept in this browser until you discard it or sign out. <button type="button" onClick={discard}>Discard</button>{admin && <> <a href={href(['rules', '*', 'edit'])}>Review and publish it</a></>}</p>
          </>
        )
      }}
    </Await>
  )
}

// Running shows how much of the recording is sent, and then how much of it is decided: the browser
// shows the answer only when all is sent, but the server decides from the first byte on.
function Running({ of: { request, sent, progress }, cancel }: { of: Run; cancel: () => void }) {
  const sending = request?.file && !(sent && sent.bytes >= sent.all)
  const size = progress?.size ?? request?.file?.size
  const [done, all] = sending ? [sent?.bytes, sent?.all ?? request.file?.size] : [progress?.bytes, size]
  return (
    <Panel title="The replay runs" actions={<button type="button" onClick={cancel}>Cancel</button>}>
      <progress aria-label="Progress of the replay" {...(all ? { max: all, value: Math.min(done ?? 0, all) } : {})} />
      <p role="status">{sending ? sendingText(sent) : progress ? `${many(progress.events, 'event')} decided, ${bytes(progress.bytes)}${size ? ` of ${bytes(size)}` : ''} read.` : 'The server has all of it. It decides…'}</p>
    </Panel>
  )
}

function sendingText(sent: Run['sent']): string {
  if (!sent) return 'The recording is sent…'
  const left = (1000 * (sent.all - sent.bytes)) / Math.max(sent.rate, 1)
  return `${bytes(sent.bytes)} of ${bytes(sent.all)} sent, about ${duration(left)} left.`
}

const bounds = {
  events: 'a million events', keys: 'too many keys', bytes: '256 MiB of input', time: 'a minute',
  upload: 'an upload of less than 64 KiB a second', input: 'an unreadable place of the input', failure: 'a defect of the server',
}

function Outcome({ of, draft, chart }: { of: Result; draft: RuleFile[] | undefined; chart: string }) {
  const r = of.report
  const after = r.compare
  return (
    <>
      {!of.complete && <p class="box warn" role="status"><strong>The report covers a part of the traffic:</strong> the replay ended at {of.stopped ? bounds[of.stopped] : 'a bound'}.{of.problem && ` ${of.problem}`}</p>}
      {of.complete && r.events === 0 && <p class="box" role="status">No event of the traffic is in the range of time. Empty Since and Until to replay all of it.</p>}
      {of.older_left_out && <p class="box warn" role="status"><strong>The report covers the newest lines of the decision log:</strong> a replay reads 256 MiB. For older lines give Until.</p>}
      {!!of.penalties?.length && <p class="box">A replay counts no penalties, so live these rules deny more: {of.penalties.join(', ')}.</p>}
      <div class="columns">
        <Panel title="Result" note={of.files ? `${many(of.files, 'file')} of the decision log` : ''} actions={<Save label="Save the report" name="stint-replay.json" type="application/json" text={async () => JSON.stringify(of.report, null, 2)} />}>
          <Summary of={r} />
          <OverTime of={r} />
        </Panel>
        {draft && <Panel title="The draft now" note="on the requests of the last minutes"><DraftImpact files={draft} /></Panel>}
      </div>
      <Panel title="Rules" note={of.rules_left_out ? `without ${many(of.rules_left_out, 'rule')}` : ''}>
        <Rules of={r} shown={chart} />
      </Panel>
      {after && (
        <div class="columns">
          <Panel title="Denied by the draft alone" note={many(after.callers_newly_denied, 'caller')}><Callers name="denied" list={after.top_newly_denied} /></Panel>
          <Panel title="Allowed by the draft alone" note={many(after.callers_newly_allowed, 'caller')}><Callers name="allowed" list={after.top_newly_allowed} /></Panel>
        </div>
      )}
      {r.unreadable > 0 && <p class="quiet">{many(r.unreadable, 'line')} could not be read. The first: {r.unreadable_lines.slice(0, 3).map((l) => `line ${l.line}: ${l.reason}`).join('; ')}</p>}
    </>
  )
}

// DraftImpact shows what a publication of the draft would do now, beside what it would have done.
function DraftImpact({ files }: { files: RuleFile[] }) {
  const valid = useLoad(async (signal) => (await call('post', '/rules/validate', { body: JSON.stringify({ files }), signal })).data, [files])
  return <Await of={valid} what="The impact is not known">{({ impact }) => <ImpactView of={impact} whole />}</Await>
}

function Summary({ of }: { of: Report }) {
  return (
    <div class="tiles">
      <Tile label="events" value={count(of.events)} note={`of ${many(of.callers, 'caller')}`} />
      <Tile label="denied by the rules in force" value={share(of.share_denied)} note={count(of.denied)} />
      {of.compare && <Tile label="denied by the draft" value={share(of.compare.share_denied)} note={count(of.compare.denied)} />}
      {of.compare && <Tile label="denied anew" value={count(of.compare.newly_denied)} note={`of ${many(of.compare.callers_newly_denied, 'caller')}`} />}
      {of.compare && <Tile label="allowed anew" value={count(of.compare.newly_allowed)} note={`of ${many(of.compare.callers_newly_allowed, 'caller')}`} />}
    </div>
  )
}

function OverTime({ of, rule }: { of: Report; rule?: string }) {
  const { times, series } = useMemo(() => {
    const step = of.over_time.step_us / 1e6 || 1
    const perSecond = (list: number[]) => list.map((n) => n / step)
    const before = of.per_rule.find((r) => r.rule === rule)
    const after = of.compare?.per_rule.find((r) => r.rule === rule)
    return {
      times: of.over_time.events.map((_, i) => of.over_time.start_us / 1e6 + i * step),
      series: [
        { title: 'events', colour: 'quiet', values: perSecond(before?.events_over_time ?? (rule ? of.over_time.events.map(() => 0) : of.over_time.events)) },
        { title: 'denied by the rules in force', colour: 'series-degraded', values: perSecond(rule ? before?.denied_over_time ?? after?.denied_before_over_time ?? [] : of.over_time.denied) },
        ...(of.compare ? [{ title: 'denied by the draft', colour: 'series-denied', values: perSecond(rule ? after?.denied_after_over_time ?? [] : of.compare.denied_over_time) }] : []),
      ],
    }
  }, [of, rule])
  return <Chart label={`Events a second${rule ? ` of rule ${rule}` : ''}`} unit="a second" times={times} series={series} />
}

interface RuleRow {
  rule: string
  events: number
  before: number
  after: number
}

function Rules({ of, shown }: { of: Report; shown: string }) {
  const changes = new Map((of.compare?.per_rule ?? []).map((r) => [r.rule, r] as const))
  const rows: RuleRow[] = of.per_rule.map((r) => ({ rule: r.rule, events: r.events, before: r.denied, after: changes.get(r.rule)?.denied_after ?? r.denied }))
  for (const [rule, r] of changes) if (!rows.some((row) => row.rule === rule)) rows.push({ rule, events: 0, before: r.denied_before, after: r.denied_after })
  const columns = [
    { title: 'Rule', value: (r: RuleRow) => r.rule },
    { title: 'Events', value: (r: RuleRow) => r.events, show: (r: RuleRow) => count(r.events) },
    { title: 'Denied now', value: (r: RuleRow) => r.before, show: (r: RuleRow) => count(r.before) },
    ...(of.compare ? [
      { title: 'Denied by the draft', value: (r: RuleRow) => r.after, show: (r: RuleRow) => count(r.after) },
      { title: 'Difference', value: (r: RuleRow) => r.after - r.before, show: (r: RuleRow) => <Difference of={r.after - r.before} /> },
    ] : []),
    { title: '', value: () => '', show: (r: RuleRow) => <button type="button" class="quiet" aria-label={`Chart of ${r.rule}`} onClick={() => amend({ chart: r.rule })}>Chart</button> },
  ]
  return (
    <>
      {rows.some((r) => r.rule === shown) && <><h2 class="minor">{shown}</h2><OverTime of={of} rule={shown} /></>}
      <Table name="replayed" caption="Denials of the rules" rows={rows} columns={columns} keyOf={(r) => r.rule} empty="No rule counted an event. Choose a longer range of time, or another recording." />
    </>
  )
}

function Difference({ of }: { of: number }) {
  if (of === 0) return <span class="quiet">0</span>
  return of > 0 ? <del class="more">+{count(of)}</del> : <ins>−{count(-of)}</ins>
}

function Callers({ name, list }: { name: string; list: Comparison['top_newly_denied'] }) {
  type Caller = (typeof list)[number]
  const columns = [
    { title: 'Caller', value: (c: Caller) => c.caller, show: (c: Caller) => <code>{c.caller}</code> },
    { title: 'Requests', value: (c: Caller) => c.requests, show: (c: Caller) => count(c.requests) },
    { title: 'Changed', value: (c: Caller) => c.changed, show: (c: Caller) => count(c.changed) },
  ]
  return <Table name={`newly_${name}`} keys caption={`Callers ${name} by the draft alone`} rows={list} columns={columns} keyOf={(c) => `${c.caller} ${c.requests} ${c.changed}`} empty={`No caller is ${name} by the draft alone. Change the draft more, or choose a longer range of time.`} />
}
