// The editor of one rule or of the whole set: text, effects, reason, publication. A 412
// merges the change of somebody else into the text.
import { useEffect, useRef, useState } from 'preact/hooks'
import { Refusal, call, callText, type Answer, type Diff, type Outcome, type Problem, type Schemas } from '../api'
import { forgetDraft, readDraft, type Draft, type File } from '../draft'
import { YamlEditor } from '../editor/editor'
import { merge } from '../editor/merge'
import { useLoad } from '../load'
import { Await, Choice, Failure, Long, Page, Panel, Problems, Time } from '../parts/basic'
import { Change, type Step } from '../parts/change'
import { DiffText } from '../parts/effects'
import { useKept } from '../parts/kept'
import { amend, go, href, useRoute } from '../router'
import { identity } from '../session'
import { useStore } from '../store'

// Target is what an editor changes.
export interface Target {
  draft: string // the name of its draft
  title: string
  verb: string
  read: (signal?: AbortSignal) => Promise<Whole>
  // newest reads what the server has after a 412: for a text that began as a new one, what somebody
  // else has created. Without it that is read.
  newest?: (signal?: AbortSignal) => Promise<Whole>
  check: (files: File[], signal: AbortSignal) => Promise<unknown>
  write: (files: File[], etag: string, step: Step) => Promise<Answer<Outcome>>
  close: () => void
}

interface Whole {
  files: File[]
  etag: string // empty: the server has no such thing yet, or not any more
}

// condition permits a change only to what the text began with.
function condition(etag: string): { ifMatch: string } | { ifNoneMatch: string } {
  return etag ? { ifMatch: etag } : { ifNoneMatch: '*' }
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
      call('put', '/rules/{id}', { path: { id }, body: textOf(files), query, ...condition(etag), reason: reason ?? '', signal }),
    close: () => go(['rules', id]),
  }
}

export function newRuleTarget(id: string): Target {
  const target = ruleTarget(id)
  return {
    ...target, draft: `new rule ${id}`, title: `New rule ${id}`, verb: 'Publish the new rule',
    read: async () => ({ files: [{ name: id, text: 'match: {path_prefix: /}\nby: [api_key]\nlimit: 100\nwindow: 1m\nmode: shadow\n' }], etag: '' }),
    newest: target.read,
  }
}

// tierTarget edits a tier, or with fresh a new one.
export function tierTarget(tier: string, fresh: boolean): Target {
  const path = { tier }
  const newest = async (signal?: AbortSignal) => {
    const { data, etag } = await callText('get', '/rules/tier/{tier}', { path, accept: 'application/yaml', signal })
    return { files: [{ name: tier, text: data }], etag }
  }
  return {
    draft: `${fresh ? 'new tier' : 'tier'} ${tier}`, title: `${fresh ? 'New' : 'Edit'} tier ${tier}`, verb: fresh ? 'Publish the new tier' : 'Publish the tier',
    read: fresh ? async () => ({ files: [{ name: tier, text: 'limit: 100\nwindow: 1m\n' }], etag: '' }) : newest,
    newest,
    check: (files, signal) => call('post', '/rules/validate', { query: { tier }, body: textOf(files), signal }),
    write: (files, etag, { signal, reason, ...query }) =>
      call('put', '/rules/tier/{tier}', { path, body: textOf(files), query: { ...query, replace: true }, ...condition(etag), reason: reason ?? '', signal }),
    close: () => go(['tiers']),
  }
}

export const setTarget: Target = {
  draft: 'set', title: 'Edit all rules', verb: 'Publish all rules',
  read: async (signal) => {
    const { data, etag } = await call('get', '/rules', { signal })
    return { files: data.files, etag }
  },
  check: (files, signal) => call('post', '/rules/validate', { body: JSON.stringify({ files: filled(files) }), signal }),
  write: (files, etag, { signal, reason, ...query }) =>
    call('put', '/rules', { body: JSON.stringify({ files: filled(files) }), query, ifMatch: etag, reason: reason ?? '', signal }),
  close: () => go(['rules']),
}

// filled leaves out the files that the user has emptied, unless all are empty.
function filled(files: File[]): File[] {
  const some = files.filter((f) => f.text.trim() !== '')
  return some.length > 0 ? some : files
}

function textOf(files: File[]): string {
  return files[0]?.text ?? ''
}

// Edit shows the editor of a target, with its draft if there is one.
export function Edit({ target }: { target: Target }) {
  const [discarded, setDiscarded] = useState(0) // counts the drafts that were: the editor begins anew
  const start = useLoad(async (signal): Promise<Draft> => {
    const kept = readDraft(target.draft)
    if (kept) return kept
    const { files, etag } = await target.read(signal)
    return { base: files, etag, files, reason: '', saved: '' }
  }, [target.draft, discarded])
  return (
    <Page title={target.title}>
      <Await of={start} what="The rules were not loaded, and nothing was changed">
        {(draft) => <Work key={target.draft} target={target} start={draft} discard={() => { forgetDraft(target.draft); setDiscarded(discarded + 1) }} />}
      </Await>
    </Page>
  )
}

type Version = Schemas['Version']

// Clash is what a 412 brought. Others have changed the text, or created or deleted what it is about.
interface Clash {
  kind: 'changed' | 'created' | 'deleted'
  diff: Diff | undefined
  theirs: File[]
  versions: Version[] // that others published since the text began, the newest first
  conflicts: number
  gone: string[] // the files of the user that the newest rules lack
  edited: string // when the user changed the text last
}

function Work({ target, start, discard }: { target: Target; start: Draft; discard: () => void }) {
  const [draft, setDraft] = useState(start)
  const [opened, setOpened] = useState(0) // counts the texts that the editor began with
  const shown = useRoute().query.get('file')
  const [step, setStep] = useState<'edit' | 'review'>('edit')
  const [clash, setClash] = useState<Clash>()
  const [failed, setFailed] = useState<Error>()
  const [mistake, setMistake] = useState<Problem>() // whose line the user wants to see
  const kept = useKept(target.draft, () => (start.saved ? start : null))
  const edited = useRef(start.saved)
  const checked = useCheck(target, draft.files)
  const changed = draft.files.some((f, i) => f.text !== draft.base[i]?.text)

  const change = (next: Draft) => {
    setDraft(next)
    kept.keep(next)
  }
  const reload = (next: Draft) => {
    change(next)
    setOpened((n) => n + 1)
  }
  const conflict = (refusal: Refusal) => {
    setStep('edit')
    Promise.all([readNewest(target, draft), call('get', '/rules/history', { query: { n: 100 } })]).then(([{ files, etag }, history]) => {
      const kind = !etag ? 'deleted' : !draft.etag ? 'created' : 'changed'
      const merged = kind === 'changed' ? mergeFiles(draft, files) : { files: draft.files, conflicts: 0, gone: [] }
      reload({ ...draft, base: merged.files.map(({ name }) => ({ name, text: textIn(files, name) ?? '' })), etag, files: merged.files })
      setClash({ ...merged, kind, diff: refusal.diff, theirs: etag ? files : [], versions: publishedSince(refusal.diff, history.data.versions), edited: edited.current })
      setFailed(undefined)
    }, setFailed)
  }
  const file = draft.files.find((f) => f.name === shown) ?? draft.files[0]!
  if (step === 'review') {
    return (
      <Panel title="What the change does">
        <Change whole={target === setTarget} canary verb={target.verb} reason={draft.reason} setReason={(reason) => change({ ...draft, reason })}
          send={(s) => target.write(draft.files, draft.etag, s)} conflict={conflict} cancel={() => setStep('edit')}
          made={kept.forget} done={(o) => { if (o.canary) go(['canary']); else target.close() }} />
      </Panel>
    )
  }
  return (
    <>
      {start.saved && opened === 0 && <p class="box" role="status">This is your draft of <Time at={start.saved} />. <button type="button" onClick={discard}>Discard it</button></p>}
      {kept.notes}
      {failed && <Failure what="The newer rules were not loaded, and nothing was published" error={failed} />}
      {clash && <ClashNote of={clash} />}
      {draft.files.length > 1 && <Choice label="File" of={draft.files.map((f) => [f.name, f.name] as const)} value={file.name} choose={(name) => { setMistake(undefined); amend({ file: name }) }} />}
      {clash && clash.kind !== 'deleted' && <Sides of={clash} reason={draft.reason} />}
      <YamlEditor document={`${file.name} ${opened}`} label={`${target.title}: ${file.name}`} text={file.text} spot={mistake}
        other={clash?.theirs.find((f) => f.name === file.name)?.text} problems={checked.problems.filter((p) => p.file === 'body' || p.file === file.name)}
        changed={(text) => {
          edited.current = new Date().toISOString()
          change({ ...draft, files: draft.files.map((f) => (f === file ? { ...f, text } : f)) })
        }} />
      <div class="checked" role="status">
        {checked.error && <Failure what="The text was not checked" error={checked.error} />}
        {checked.problems.length > 0 && <div class="box bad"><p><strong>The rules have mistakes.</strong> Nothing can be published until they are mended.</p><Problems list={checked.problems} show={(p) => { setMistake({ ...p }); if (p.file !== 'body') amend({ file: p.file }) }} /></div>}
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

// readNewest returns what the server has after a 412: empty texts and no tag if that was deleted.
async function readNewest(target: Target, draft: Draft): Promise<Whole> {
  try {
    return await (target.newest ?? target.read)()
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 404) throw error
    return { files: draft.files.map(({ name }) => ({ name, text: '' })), etag: '' }
  }
}

function textIn(list: File[], name: string): string | undefined {
  return list.find((f) => f.name === name)?.text
}

// mergeFiles merges each file of theirs. A file that they lack stays if the user has changed it: the
// change would be lost otherwise.
function mergeFiles(draft: Draft, theirs: File[]): { files: File[]; conflicts: number; gone: string[] } {
  let conflicts = 0
  const files = theirs.map(({ name, text }) => {
    const mine = textIn(draft.files, name)
    const merged = mine === undefined ? { text, conflicts: 0 } : merge(textIn(draft.base, name) ?? '', mine, text)
    conflicts += merged.conflicts
    return { name, text: merged.text }
  })
  const kept = draft.files.filter((f) => textIn(theirs, f.name) === undefined && f.text !== textIn(draft.base, f.name))
  return { files: [...files, ...kept], conflicts, gone: kept.map((f) => f.name) }
}

function ClashNote({ of }: { of: Clash }) {
  return (
    <div class="box warn" role="alert">
      {of.kind === 'deleted' && <p><strong>Somebody else has deleted this meanwhile, so your change was not published.</strong> The editor has your text. To publish it creates it again. To leave it deleted, discard your text.</p>}
      {of.kind === 'created' && <p><strong>Somebody else has created this meanwhile, so your text was not published.</strong> The editor has your text, with theirs beside it. To publish it replaces theirs. Take theirs where that is right.</p>}
      {of.kind === 'changed' && (
        <p><strong>Somebody else has published a change meanwhile, so yours was not published.</strong> The editor has both changes now; marked lines are yours.{' '}
          {of.conflicts > 0
            ? `In ${of.conflicts === 1 ? 'one place' : `${of.conflicts} places`} both changed the same lines: the editor has yours there. Check each one, and take theirs where that is right.`
            : 'They do not touch the same lines.'}</p>
      )}
      {of.gone.length > 0 && <p><strong>The newest rules have no file {of.gone.join(', ')}.</strong> The editor keeps yours, because you have changed it. Move what is still needed to another file, and empty this one: an empty file is not published.</p>}
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
            <li key={v.version}><a href={href(['versions', String(v.version)])}>version {v.version}</a> by {v.author || 'an unknown author'}, <Time at={v.time} />: {v.comment ? <Long text={v.comment} /> : 'no reason given'}</li>
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
