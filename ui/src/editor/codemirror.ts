// The editor of rules. It is a chunk of its own, loaded when a page shows it.
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint'
import { MergeView, unifiedMergeView } from '@codemirror/merge'
import { search, searchKeymap } from '@codemirror/search'
import { EditorState, type Extension } from '@codemirror/state'
import { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import type { Problem } from '../api'

export interface Settings {
  label: string
  text: string
  // other is a text whose differences are marked, each with a button that takes its lines. It is
  // beside the text in a wide window, and in the same column in a narrow one.
  other?: string
  readOnly?: boolean
  changed: (text: string) => void
}

export interface Editor {
  problems: (list: Problem[]) => void
  text: () => string
  line: (number: number) => void
  destroy: () => void
}

const colours = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: 'var(--code-name)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-text)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--quiet)', fontStyle: 'italic' },
])

// The colours are those of the page, which the shadow root inherits.
const theme = EditorView.theme({
  '&': { backgroundColor: 'var(--surface)', color: 'var(--text)', fontSize: '13px', border: '1px solid var(--line)', borderRadius: '4px' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '1px' },
  '.cm-content': { fontFamily: 'var(--mono)', caretColor: 'var(--text)', minHeight: '12em' },
  '.cm-scroller': { maxHeight: '65vh', overflow: 'auto' },
  '.cm-gutters': { backgroundColor: 'var(--sunken)', color: 'var(--quiet)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { background: 'var(--selection) !important' },
  '&.cm-merge-a .cm-changedLine': { backgroundColor: 'var(--removed) !important' },
  '&.cm-merge-a .cm-changedText': { borderBottom: '2px solid var(--bad)' },
  '&.cm-merge-b .cm-changedLine, .cm-changedLine': { backgroundColor: 'var(--added) !important' },
  '.cm-changedText': { background: 'none !important', borderBottom: '2px solid var(--good)' },
  '.cm-deletedChunk': { backgroundColor: 'var(--removed) !important', color: 'var(--text)' },
  '.cm-deletedChunk .cm-deletedText': { background: 'none !important', borderBottom: '2px solid var(--bad)' },
  '.cm-chunkButtons button': { background: 'var(--surface) !important', color: 'var(--text) !important', border: '1px solid var(--control) !important', minHeight: '24px', padding: '0 8px', margin: '2px' },
  '.cm-tooltip': { backgroundColor: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--line)' },
  '.cm-diagnostic': { borderLeftColor: 'var(--bad)' },
  '.cm-textfield, .cm-button': { background: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--control)', borderRadius: '4px', minHeight: '24px', fontSize: '13px' },
  '.cm-panel.cm-search [name=close]': { color: 'var(--text)', minWidth: '24px', minHeight: '24px' },
  '.cm-panel.cm-search label': { fontSize: '13px' },
  '.cm-searchMatch': { backgroundColor: 'var(--warn-back)', outline: '1px solid var(--warn)' },
  '.cm-searchMatch-selected': { backgroundColor: 'var(--selection)' },
  '.cm-panels': { backgroundColor: 'var(--sunken)', color: 'var(--text)' },
})

// wide is a window in which two texts fit beside each other. The style sheet has the same width.
const wide = matchMedia('(min-width: 900px)')

// open puts an editor into a shadow root of the element, so that its styles are adopted
// sheets: the policy of the page permits no style elements.
export function open(host: HTMLElement, settings: Settings): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open', delegatesFocus: true })
  let found: Problem[] = []
  let shown = show(root, settings)
  const mark = () => shown.view.dispatch(setDiagnostics(shown.view.state, found.map((p) => at(shown.view.state, p))))
  const arrange = () => {
    const text = shown.view.state.doc.toString()
    shown.destroy()
    shown = show(root, { ...settings, text })
    mark()
  }
  if (settings.other !== undefined) wide.addEventListener('change', arrange)
  return {
    problems: (list) => {
      found = list
      mark()
    },
    text: () => shown.view.state.doc.toString(),
    line: (number) => {
      const { view } = shown
      const line = view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines))
      view.dispatch({ selection: { anchor: line.from }, effects: EditorView.scrollIntoView(line.from, { y: 'center' }) })
      view.focus()
    },
    destroy: () => {
      wide.removeEventListener('change', arrange)
      shown.destroy()
    },
  }
}

interface Shown {
  view: EditorView // of the text that the user edits
  destroy: () => void
}

function show(root: ShadowRoot, settings: Settings): Shown {
  const { text, other, label } = settings
  const edited = [
    ...common(label, settings.readOnly ?? false), lintGutter(), history(), indentOnInput(), indentUnit.of('  '),
    keymap.of([...searchKeymap, ...defaultKeymap, ...historyKeymap, ...lintKeymap]),
    search({ top: true }), // that of the browser finds only the lines in view
    EditorView.updateListener.of((update) => { if (update.docChanged) settings.changed(update.state.doc.toString()) }),
  ]
  if (other === undefined || !wide.matches) {
    const merging = other === undefined ? [] : unifiedMergeView({ original: other, mergeControls: mergeButton, gutter: true })
    const view = new EditorView({ parent: root, root, state: EditorState.create({ doc: text, extensions: [edited, merging] }) })
    return { view, destroy: () => view.destroy() }
  }
  const both = new MergeView({
    parent: root, root, gutter: true,
    a: { doc: other, extensions: [common(`${label}: theirs, read only`, true), keymap.of(defaultKeymap)] },
    b: { doc: text, extensions: edited },
    revertControls: 'a-to-b', renderRevertControl: takeButton,
  })
  both.dom.style.maxHeight = '65vh'
  return { view: both.b, destroy: () => both.destroy() }
}

// common has what both sides of a merge show.
function common(label: string, readOnly: boolean): Extension[] {
  return [
    lineNumbers(), drawSelection(), highlightActiveLine(), highlightActiveLineGutter(), yaml(), syntaxHighlighting(colours), theme,
    EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }), EditorState.readOnly.of(readOnly),
  ]
}

// takeButton stands between the two sides. The view listens to the mouse alone.
function takeButton(): HTMLElement {
  const button = document.createElement('button')
  button.type = 'button'
  button.name = 'reject'
  button.textContent = '→'
  button.title = button.ariaLabel = 'Take theirs'
  button.addEventListener('click', (e) => { if (e.detail === 0) button.dispatchEvent(new MouseEvent('mousedown', { bubbles: true })) })
  return button
}

function mergeButton(type: 'reject' | 'accept', action: (e: MouseEvent) => void): HTMLElement {
  const button = document.createElement('button')
  button.type = 'button'
  button.name = type
  button.textContent = type === 'accept' ? 'Keep yours' : 'Take theirs'
  button.addEventListener('mousedown', (e) => { if (e.button === 0) action(e) })
  button.addEventListener('click', (e) => { if (e.detail === 0) action(e) }) // by the keyboard
  return button
}

function at(state: EditorState, problem: Problem): Diagnostic {
  const line = state.doc.line(Math.min(Math.max(problem.line ?? 1, 1), state.doc.lines))
  const from = Math.min(line.from + Math.max((problem.column ?? 1) - 1, 0), line.to)
  return { from, to: Math.max(line.to, from), severity: 'error', message: problem.what + (problem.mend ? ` (${problem.mend})` : '') }
}
