"""Spark prepares a graph for l2g2g: edge and node tables from a folder of Parquet parts.

    python examples/prepare_with_spark.py parts tables --features features    # PySpark and Java
    l2g2g prepare --check tables
    l2g2g prepare tables --store big

parts: columns source and target (ids, integers or text) and perhaps weight. features: Parquet parts of id and a list
column. Nodes are numbered by id, text by its bytes, as l2g2g numbers those of a folder of parts: both give the same
store. Nothing here goes through one machine: numbers come from a sort and from the sizes of its partitions.
"""

import argparse
from pathlib import Path
from typing import Any


def number_nodes(spark: Any, ids: Any) -> Any:
    """A table of node and id: the ids sorted, counted from 0 through all partitions."""
    from pyspark.sql import types

    kind = ids.schema["id"].dataType
    numbered = ids.sort("id").rdd.zipWithIndex().map(lambda pair: (pair[1], pair[0]["id"]))
    fields = [types.StructField("node", types.LongType()), types.StructField("id", kind)]
    return spark.createDataFrame(numbered, types.StructType(fields))


def write_tables(parts: Path, output: Path, features: Path | None = None, *, cores: str = "*") -> None:
    """Write output/edges.parquet and output/nodes.parquet."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )
    try:
        edges = spark.read.parquet(str(parts))
        ids = edges.select(f.col("source").alias("id")).union(edges.select("target"))
        if features is not None:
            rows = spark.read.parquet(str(features))
            vector = next(name for name in rows.columns if name != "id")
            rows = rows.select("id", f.col(vector).alias("features"))
            ids = ids.union(rows.select("id"))
        nodes = number_nodes(spark, ids.distinct()).cache()
        ends = edges.join(nodes.toDF("u", "source"), "source").join(nodes.toDF("v", "target"), "target")
        weight = ["weight"] if "weight" in edges.columns else []
        numbered = ends.select(f.col("u").alias("source"), f.col("v").alias("target"), *weight)
        numbered.sort("source", "target").write.parquet(str(output / "edges.parquet"))
        table = nodes if features is None else nodes.join(rows, "id", "left").select("node", "id", "features")
        table.sort("node").write.parquet(str(output / "nodes.parquet"))
    finally:
        spark.stop()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--features", type=Path)
    options = parser.parse_args()
    write_tables(options.parts, options.output, options.features)


if __name__ == "__main__":
    main()
