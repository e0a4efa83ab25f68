#!/bin/sh
# A small git repository, the same bytes each time, in the folder `notes` of the working folder.
set -eu
export HOME="$PWD" GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME="Ada Byron" GIT_AUTHOR_EMAIL="ada@notes.example"
export GIT_COMMITTER_NAME="Ada Byron" GIT_COMMITTER_EMAIL="ada@notes.example"
commit() {
    export GIT_AUTHOR_DATE="$1" GIT_COMMITTER_DATE="$1"
    git add --all
    git commit --quiet --message "$2"
}
git init --quiet --initial-branch main notes
cd notes
echo "Milk, flour, apples" > shopping.txt
commit "2026-01-05T09:00:00+00:00" "Begin the shopping list"
echo "Call the plumber" > tasks.txt
commit "2026-01-06T10:30:00+00:00" "Note the plumber"
git branch recipes
git branch holidays
echo "Milk, flour, apples, cinnamon" > shopping.txt
