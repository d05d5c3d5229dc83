# The one rule by which results of PostgreSQL's regress suite are changed before they are compared, for results and
# expected output alike: what psql prints below a table because Consort follows its database.
#
#   1. In a list of publications the publication of Consort goes: a line of four spaces and "consort" (in quotes). A line
#      "Publications:" with nothing left below it goes, too.
#   2. A line that is exactly "Replica Identity: FULL" goes.
#
# Nothing else is touched: a publication of a test's own, another replica identity, and every other line stay.

function keep(line) {
    if (heading != "" && line !~ /^    "/) heading = ""
    if (heading != "") { print heading; heading = "" }
    print line
}

/^Replica Identity: FULL$/ { next }
/^Publications:$/ { heading = $0; next }
/^    "consort[^"]*"$/ && (heading != "" || listing) { listing = 1; next }
{ listing = (heading != "" || listing) && /^    "/; keep($0) }
END { }
