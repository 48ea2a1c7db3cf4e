--- Train
SELECT * FROM iris.train
TO TRAIN DNNClassifier
WITH model.n_classes = 3, model.hidden_units = [10, 20]
COLUMN sepal_length, sepal_width, petal_length, petal_width
LABEL class
INTO sqlflow_models.my_dnn_model;
--- Train
SELECT * FROM iris.train WHERE class <> 2
TO TRAIN DNNClassifier
WITH
  model.n_classes = 2,
  model.hidden_units = [10, 20],
  optimizer.learning_rate = 0.01,
  model.loss = "SparseCategoricalCrossentropy",
  train.epoch = 10,
  train.batch_size = 32,
  train.verbose = 1,
  validation.select = "SELECT * FROM iris.test WHERE class <> 2"
COLUMN sepal_length, sepal_width, petal_length, petal_width
LABEL class
INTO sqlflow_models.my_dnn_model;
--- Train
select * from iris.train to train DNNClassifier with model.n_classes=3,model.hidden_units=[10,20] label class into m
--- Train
Select * From iris.train To Train sqlflow_models.DNNClassifier With model.n_classes = 3 Label class Into m;
--- Train
SELECT * FROM iris.train
TO TRAIN sqlflow_models.StackedBiLSTMClassifier
WITH model.n_classes = 3, model.stack_units = [64, 32], train.epoch = 20
COLUMN EMBEDDING(SEQ_CATEGORY_ID(news_title, 16000), 128, mean)
LABEL class_id
INTO sqlflow_models.my_bilstm_model;
--- Train
SELECT * FROM titanic.train
TO TRAIN BoostedTreesClassifier
WITH model.center_bias = True, model.n_batches_per_layer = 1, train.epoch = 20, validation.select = "SELECT * FROM titanic.test"
COLUMN BUCKET(age, [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]), fare, INDICATOR(CATEGORY_HASH(sex, 10)), embark_town
LABEL survived
INTO sqlflow_models.titanic_boosted;
--- Train
SELECT * FROM boston.train
TO TRAIN xgboost.gbtree
WITH objective = "reg:squarederror", train.num_boost_round = 30
COLUMN crim, zn, indus, chas, nox, rm, age, dis, rad, tax, ptratio, b, lstat
LABEL medv
INTO sqlflow_models.my_xgb_regression_model;
--- Train
SELECT * FROM iris.train
TO TRAIN xgboost.gbtree
WITH objective = "multi:softprob", num_class = 3, eta = 0.4, max_depth = 6, eval_metric = "merror"
LABEL class
INTO sqlflow_models.xgb_model;
--- Train
SELECT * FROM iris.train
TO TRAIN a_data_scientist/regressors:v0.2/MyDNNRegressor
WITH model.hidden_units = [64]
LABEL sepal_width
INTO sqlflow_models.my_dnn_regression_model;
--- Train
SELECT * FROM t TO TRAIN my_registry/my_image:latest/MyModel LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN hub.example.io:5000/team-a/models:v1.2-rc1/Net LABEL y INTO m;
--- Train
SELECT * FROM census
TO TRAIN DNNLinearCombinedClassifier
WITH
  model.n_classes = 2,
  model.dnn_hidden_units = [128, 32],
  model.dnn_optimizer = Adagrad, dnn_optimizer.learning_rate = 0.1,
  model.linear_optimizer = Ftrl, linear_optimizer.l1_regularization_strength = 1e-3
COLUMN age, NUMERIC(hours, 1) FOR linear_feature_columns
COLUMN EMBEDDING(CATEGORY_HASH(occupation, 1000), 8, sum), INDICATOR(CATEGORY_ID(education, 16)) FOR dnn_feature_columns
LABEL income
INTO wide_and_deep;
--- Train
SELECT * FROM t TO TRAIN DeepFM COLUMN INDICATOR(CATEGORY_ID("f.*", 1000)) LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN DCN COLUMN DENSE('c[0-9]+', [4, 4], COMMA), SPARSE(s, [10, 10], SEMICOLON, int, COLON, float) LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN DNNClassifier COLUMN CROSS([a, BUCKET(DENSE(b, 1), [1, 5.5, 10])], 100), WEIGHTED_CATEGORY(CATEGORY_ID(w, 9)), * LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN DNNClassifier COLUMN * LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN DNNClassifier COLUMN * FOR feature_columns LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN DNNClassifier WITH model.n_classes = 3 COLUMN a USING old_model LABEL y INTO new_model;
--- Train
SELECT * FROM t TO TRAIN DNNClassifier LABEL y USING sqlflow_models.old_model INTO sqlflow_models.new_model;
--- Train
SELECT * FROM t TO TRAIN DNNClassifier LABEL y COLUMN a, b WITH train.epoch = 1 INTO m;
--- Train
SELECT * FROM t TO TRAIN DNNClassifier COLUMN a FOR x WITH train.epoch = 1 COLUMN b FOR z LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN DeepEmbeddingClusterModel WITH model.pretrain_dims = [10, 10, 3], model.n_clusters = 3, train.epoch = 10 INTO m;
--- Train
SELECT * FROM t TO TRAIN m INTO m;
--- Train
SELECT sepal_length, sepal_width, petal_length, petal_width, class FROM iris.train
TO TRAIN AutoClassifier
LABEL class
INTO best;
--- Train
SELECT * FROM t TO TRAIN DNNClassifier
WITH model.hidden_units = search.choice([[64], [128, 64]]), optimizer.learning_rate = search.loguniform(1e-4, 1e-1), train.trials = 20
LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN DNNRegressor
WITH model.optimizer = Adam(learning_rate=0.1, beta_1=0.9), model.loss = Huber(delta=1.5), model.dropout = None, model.batch_norm = true, model.activation = 'relu'
LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN RNNBasedTimeSeriesModel WITH model.n_in = 7, model.n_out = 1, model.stack_units = [500, 500], model.model_type = "lstm"
COLUMN TIME, t1, t2 LABEL "f1, f2" INTO m;
--- Train
SELECT * FROM t TO TRAIN M WITH a = [], b = [[]], c = [[1, [2, ['x']]], None, True, FALSE, name], d = f(), e = f(g(h(1)), k=[j(2)]) LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN M WITH a = 1, b = -2, c = +3, d = 1.5, e = -.5, f = 2., g = 1e-3, h = 1E5, i = 12345678901234567890, j = 0 LABEL y INTO m;
--- Train
SELECT * FROM t TO TRAIN M WITH a = "", b = '', c = "it's", d = 'say "hi"', e = "TO TRAIN; SELECT", f = ';' LABEL y INTO m;
--- Train
WITH recent AS (SELECT * FROM logs WHERE day > 3) SELECT * FROM recent TO TRAIN M LABEL y INTO m;
--- Train
WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a) SELECT * FROM a JOIN b ON a.x = b.x TO TRAIN M LABEL y INTO m;
--- Train
SELECT * FROM a UNION ALL SELECT * FROM b TO TRAIN M LABEL y INTO m;
--- Train
(SELECT * FROM a) UNION (SELECT * FROM b) TO TRAIN M LABEL y INTO m;
--- Train
SELECT t1.a, t2.b FROM t1 LEFT JOIN t2 ON t1.id = t2.id AND t2.ok WHERE t1.a IS NOT NULL ORDER BY t1.a DESC LIMIT 100 TO TRAIN M LABEL b INTO m;
--- Train
SELECT * FROM (SELECT a, (SELECT MAX(z) FROM u) AS y FROM t WHERE a IN (SELECT a FROM v)) AS q TO TRAIN M LABEL y INTO m;
--- Train
SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END AS y, COUNT(*) AS n FROM t GROUP BY a HAVING COUNT(*) > 1 TO TRAIN M LABEL y INTO m;
--- Train
SELECT CAST(a AS INT) AS a, y FROM t WHERE a BETWEEN 1 AND 2 OR NOT (b LIKE '%x') TO TRAIN M LABEL y INTO m;
--- Train Evaluate Predict PlainSQL
SELECT * FROM iris.train TO TRAIN DNNClassifier WITH model.n_classes = 3, model.hidden_units = [10, 20] LABEL class INTO m;
SELECT * FROM iris.test TO EVALUATE m LABEL class INTO r;
SELECT * FROM iris.test TO PREDICT iris.predict.class USING m;
SELECT * FROM iris.predict LIMIT 3;
--- Train
SELECT * FROM t TO TRAIN my_package.models.build_net WITH units = 3 LABEL y INTO m;
--- Train
SELECT * FROM imdb.train
TO TRAIN DNNClassifier
WITH model.n_classes = 2, model.hidden_units = [512, 64], train.num_workers = 4, train.num_ps = 2, train.worker_memory = 400, train.seed = 7, train.strategy = "hybrid", train.class_weight = "balanced", validation.fraction = 0.2, validation.metrics = "Accuracy,AUC"
COLUMN INDICATOR(SPARSE(content, 10000, COMMA))
LABEL class
INTO imdb_model;
