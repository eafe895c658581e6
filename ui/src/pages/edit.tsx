// The editor of one rule or of the whole set: text, effects, reason, publication. A 412
// merges the change of somebody else into the text.
import { useEffect, useRef, useState } from 'preact/hooks'
import { Refusal, call, callText, type Answer, type Diff, type Outcome, type Problem, type Schemas } from '../api'
import { forgetDraft, keepDraft, readDraft, type Draft, type File } from '../draft'
import { YamlEditor } from '../editor/editor'
import { merge } from '../editor/merge'
import { useLoad } from '../load'
import { Await, Choice, Failure, Page, Panel, Problems, Time } from '../parts/basic'
import { Change, type Step } from '../parts/change'
import { DiffText } from '../parts/effects'
import { amend, go, href, useRoute } from '../router'
import { identity } from '../session'
import { useStore } from '../store'

// Target is what an editor changes.
export interface Target {
  draft: string // the name of its draft
  title: string
  verb: string
  read: (signal?: AbortSignal) => Promise<{ files: File[]; etag: string }>
  check: (files: File[], signal: AbortSignal) => Promise<unknown>
  write: (files: File[], etag: string, step: Step) => Promise<Answer<Outcome>>
  close: () => void
}

export function ruleTarget(id: string): Target {
  return {
    draft: `rule ${id}`, title: `Edit rule ${id}`, verb: 'Publish the rule',
    read: async (signal) => {
      const { data, etag } = await callText('get', '/rules/{id}/', { path: { id }, accept: 'application/yaml', signal })
      return { files: [{ name: id, text: data }], etag }
    },
    check: (files, signal) => call('post', '/rules/validate', { query: { rule: id }, body: textOf(files), signal }),
    write: (files, etag, { signal, reason, ...query }) =>
      call('put', '/rules/{id}', { path: { id }, body: textOf(files), query, ifMatch: etag, reason: reason ?? '', signal }),
    close: () => go(['rules', id]),
  }
}

export function newRuleTarget(id: string): Target {
  const target = ruleTarget(id)
  return {
    ...target, draft: `new rule ${id}`, title: `New rule ${id}`, verb: 'Publish the new rule',
    read: async () => ({ files: [{ name: id, text: 'match: {path_prefix: /}\nby: [api_key]\nlimit: 100\nwindow: 1m\nmode: shadow\n' }], etag: '' }),
    write: (files, _, { signal, reason, ...query }) =>
      call('put', '/rules/{id}', { path: { id }, body: textOf(files), query, ifNoneMatch: '*', reason: reason ?? '', signal }),
  }
}

// tierTarget edits a tier, or with fresh a new one.
export function tierTarget(tier: string, fresh: boolean): Target {
  const path = { tier }
  return {
    draft: `${fresh ? 'new tier' : 'tier'} ${tier}`, title: `${fresh ? 'New' : 'Edit'} tier ${tier}`, verb: fresh ? 'Publish the new tier' : 'Publish the tier',
    read: async (signal) => {
      if (fresh) return { files: [{ name: tier, text: 'limit: 100\nwindow: 1m\n' }], etag: '' }
      const { data, etag } = await callText('get', '/rules/tier/{tier}', { path, accept: 'application/yaml', signal })
      return { files: [{ name: tier, text: data }], etag }
    },
    check: (files, signal) => call('post', '/rules/validate', { query: { tier }, body: textOf(files), signal }),
    write: (files, etag, { signal, reason, ...query }) =>
      call('put', '/rules/tier/{tier}', { path, body: textOf(files), query: { ...query, replace: true }, ...(fresh ? { ifNoneMatch: '*' } : { ifMatch: etag }), reason: reason ?? '', signal }),
    close: () => go(['tiers']),
  }
}

export const setTarget: Target = {
  draft: 'set', title: 'Edit all rules', verb: 'Publish all rules',
  read: async (signal) => {
    const { data, etag } = await call('get', '/rules', { signal })
    return { files: data.files, etag }
  },
  check: (files, signal) => call('post', '/rules/validate', { body: JSON.stringify({ files }), signal }),
  write: (files, etag, { signal, reason, ...query }) =>
    call('put', '/rules', { body: JSON.stringify({ files }), query, ifMatch: etag, reason: reason ?? '', signal }),
  close: () => go(['rules']),
}

function textOf(files: File[]): string {
  return files[0]?.text ?? ''
}

// Edit shows the editor of a target, with its draft if there is one.
export function Edit({ target, line }: { target: Target; line?: number }) {
  const start = useLoad(async (signal): Promise<Draft> => {
    const kept = readDraft(target.draft)
    if (kept) return kept
    const { files, etag } = await target.read(signal)
    return { base: files, etag, files, reason: '', saved: '' }
  }, [target.draft])
  return (
    <Page title={target.title}>
      <Await of={start} what="The rules were not loaded, and nothing was changed">
        {(draft) => <Work key={target.draft} target={target} start={draft} line={line} discard={() => { forgetDraft(target.draft); start.reload() }} />}
      </Await>
    </Page>
  )
}

type Version = Schemas['Version']

// Clash is what a 412 brought.
interface Clash {
  diff: Diff | undefined
  theirs: File[]
  versions: Version[] // that others published since the text began, the newest first
  conflicts: number
  edited: string // when the user changed the text last
}

function Work({ target, start, line, discard }: { target: Target; start: Draft; line?: number | undefined; discard: () => void }) {
  const [draft, setDraft] = useState(start)
  const [opened, setOpened] = useState(0) // counts the texts that the editor began with
  const shown = useRoute().query.get('file')
  const [step, setStep] = useState<'edit' | 'review'>('edit')
  const [clash, setClash] = useState<Clash>()
  const [failed, setFailed] = useState<Error>()
  const [full, setFull] = useState(false)
  const edited = useRef(start.saved)
  const checked = useCheck(target, draft.files)
  const changed = draft.files.some((f, i) => f.text !== draft.base[i]?.text)

  const change = (next: Draft) => {
    setDraft(next)
    if (next.files.some((f, i) => f.text !== next.base[i]?.text) || next.reason) setFull(!keepDraft(target.draft, next))
    else forgetDraft(target.draft)
  }
  const reload = (next: Draft) => {
    change(next)
    setOpened((n) => n + 1)
  }
  const conflict = (refusal: Refusal) => {
    setStep('edit')
    Promise.all([target.read(), call('get', '/rules/history', { query: { n: 100 } })]).then(([{ files, etag }, history]) => {
      const merged = mergeFiles(draft, files)
      reload({ ...draft, base: files, etag, files: merged.files })
      setClash({ diff: refusal.diff, theirs: files, versions: publishedSince(refusal.diff, history.data.versions), conflicts: merged.conflicts, edited: edited.current })
      setFailed(undefined)
    }, setFailed)
  }
  const file = draft.files.find((f) => f.name === shown) ?? draft.files[0]!
  if (step === 'review') {
    return (
      <Panel title="What the change does">
        <Change whole={target === setTarget} canary verb={target.verb} reason={draft.reason} setReason={(reason) => change({ ...draft, reason })}
          send={(s) => target.write(draft.files, draft.etag, s)} conflict={conflict} cancel={() => setStep('edit')}
          done={(o) => { forgetDraft(target.draft); if (o.canary) go(['canary']); else target.close() }} />
      </Panel>
    )
  }
  return (
    <>
      {start.saved && opened === 0 && <p class="box" role="status">This is your draft of <Time at={start.saved} />. <button type="button" onClick={discard}>Discard it</button></p>}
      {full && <p class="box warn" role="alert">The browser keeps no draft, because its storage is full or forbidden: a reload would lose this text. To make room, discard other drafts in another window.</p>}
      {failed && <Failure what="The newer rules were not loaded, and nothing was published" error={failed} />}
      {clash && <ClashNote of={clash} />}
      {draft.files.length > 1 && <Choice label="File" of={draft.files.map((f) => [f.name, f.name] as const)} value={file.name} choose={(name) => amend({ file: name })} />}
      {clash && <Sides of={clash} reason={draft.reason} />}
      <YamlEditor document={`${file.name} ${opened}`} label={`${target.title}: ${file.name}`} text={file.text} line={line}
        other={clash?.theirs.find((f) => f.name === file.name)?.text} problems={checked.problems.filter((p) => p.file === 'body' || p.file === file.name)}
        changed={(text) => {
          edited.current = new Date().toISOString()
          change({ ...draft, files: draft.files.map((f) => (f === file ? { ...f, text } : f)) })
        }} />
      <div class="checked" role="status">
        {checked.error && <Failure what="The text was not checked" error={checked.error} />}
        {checked.problems.length > 0 && <div class="box bad"><p><strong>The rules have mistakes.</strong> Nothing can be published until they are mended.</p><Problems list={checked.problems} /></div>}
        {!checked.error && checked.problems.length === 0 && <p class="quiet">{checked.busy ? 'Checking…' : changed ? 'No mistakes.' : 'Nothing is changed yet.'}</p>}
      </div>
      <div class="actions">
        <button type="button" class="primary" disabled={!changed || checked.problems.length > 0} onClick={() => setStep('review')}>Review the change…</button>
        {changed && <button type="button" onClick={discard}>Discard</button>}
        <button type="button" onClick={target.close}>Close</button>
      </div>
    </>
  )
}

function mergeFiles(draft: Draft, theirs: File[]): { files: File[]; conflicts: number } {
  let conflicts = 0
  const named = (list: File[], name: string) => list.find((f) => f.name === name)?.text
  const files = theirs.map(({ name, text }) => {
    const mine = named(draft.files, name)
    const merged = mine === undefined ? { text, conflicts: 0 } : merge(named(draft.base, name) ?? '', mine, text)
    conflicts += merged.conflicts
    return { name, text: merged.text }
  })
  return { files, conflicts }
}

function ClashNote({ of }: { of: Clash }) {
  return (
    <div class="box warn" role="alert">
      <p><strong>Somebody else has published a change meanwhile, so yours was not published.</strong> The editor has both changes now; marked lines are yours.{' '}
        {of.conflicts > 0
          ? `In ${of.conflicts === 1 ? 'one place' : `${of.conflicts} places`} both changed the same lines: the editor has yours there. Check each one, and take theirs where that is right.`
          : 'They do not touch the same lines.'}</p>
      {of.diff && <DiffText text={of.diff.text} title="Their change" />}
    </div>
  )
}

// publishedSince returns the versions of a difference. Without one, the newest is known to be among
// them.
function publishedSince(diff: Diff | undefined, versions: Version[]): Version[] {
  return diff ? versions.filter((v) => v.version > diff.from && v.version <= diff.to) : versions.slice(0, 1)
}

// Sides says whose the two texts are: theirs is on the left, or above where the window is narrow.
function Sides({ of, reason }: { of: Clash; reason: string }) {
  const who = useStore(identity)
  return (
    <div class="sides">
      <section aria-label="Theirs">
        <strong>Theirs</strong>
        <ul>
          {of.versions.map((v) => (
            <li key={v.version}><a href={href(['versions', String(v.version)])}>version {v.version}</a> by {v.author || 'an unknown author'}, <Time at={v.time} />: {v.comment || 'no reason given'}</li>
          ))}
        </ul>
      </section>
      <section aria-label="Yours">
        <strong>Yours</strong>
        <ul><li>by {who?.name}, {of.edited && <Time at={of.edited} />}, not published: {reason || 'no reason given yet'}</li></ul>
      </section>
    </div>
  )
}

// useCheck has the server check a text when the user pauses.
function useCheck(target: Target, files: File[]): { busy: boolean; problems: Problem[]; error: Error | undefined } {
  const [state, set] = useState<{ busy: boolean; problems: Problem[]; error: Error | undefined }>({ busy: false, problems: [], error: undefined })
  const first = useRef(true)
  useEffect(() => {
    if (first.current) { first.current = false; return undefined }
    const abort = new AbortController()
    set((old) => ({ ...old, busy: true }))
    const timer = setTimeout(() => {
      target.check(files, abort.signal).then(
        () => set({ busy: false, problems: [], error: undefined }),
        (error: Error) => {
          if (abort.signal.aborted) return
          const problems = error instanceof Refusal ? error.problems : []
          set({ busy: false, problems, error: problems.length > 0 ? undefined : error })
        },
      )
    }, 400)
    return () => { clearTimeout(timer); abort.abort() }
  }, [files])
  return state
}
