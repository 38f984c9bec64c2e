"""Files of rows that merchants upload. The walk of a file, by the status of its Upload (`models`):

- **arriving**: a page (`account_pages`) sends it in pieces, which `arrival` keeps as Piece.
- **reading**: it is whole. A worker (`processing`) turns its pieces into rows, kept as Block.
- **matching**: its page asks which column is which of ours (`match_form`, which proposes what it can).
- **running**: a worker takes the rows in, a batch at a time, by the `Intake` of its kind (`kinds`; rooms add theirs).
  Each refused row is kept with its reasons as RefusedRow, to be downloaded, corrected and sent again.
- **done**; **failed**, because it cannot be read or continued; or **stopped**: by a person, by a newer upload of the
  same file, because the account is closed, or because nobody finished it (`retention`).

When it ends, its pieces and blocks are deleted; `retention` says how long the rest is kept. Reasons and problems are
stored in the rules' English, and `codservice.wording` says them in the reader's language.
"""
