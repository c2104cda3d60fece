# l2g2g as a command; --user gives the files that it writes to you:
#   docker build -t l2g2g .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" l2g2g embed edges.csv -o vectors.parquet
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# Without a compiler or Python's headers a wheel is built all the same, several times slower: not in an image.
RUN python -m zipfile --list /wheels/*.whl | grep core/_native

FROM python:3.12-slim
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt "$(ls /wheels/*.whl)[report,neighbours,tables,scale]"
RUN useradd --create-home l2g2g
USER l2g2g
WORKDIR /data
ENTRYPOINT ["l2g2g"]
CMD ["--help"]
